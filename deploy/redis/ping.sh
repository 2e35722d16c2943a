#!/bin/sh
# Tell whether the server answers the worker's user: an exit code for a health check, and no password on a command line.
set -eu
url=$(cat "${CHIO_SECRETS_DIR:-/run/secrets}/redis_url_worker")
password=${url#*://worker:}
client=$(command -v valkey-cli || command -v redis-cli)
[ "$(REDISCLI_AUTH=${password%%@*} "$client" --no-auth-warning --user worker ping)" = PONG ]
