#!/bin/sh
# Start RabbitMQ with the one user that the secret broker_url names: amqp://<user>:<password>@<host>:5672//
#
# CHIO_SECRETS_DIR  where the secret is                       (/run/secrets)
# CHIO_RUN_DIR      where the configuration is, in memory     (/tmp)
set -eu
umask 077

run=${CHIO_RUN_DIR:-/tmp}
credentials=$(sed -n 's|^amqps*://\([A-Za-z0-9_-]*:[A-Za-z0-9_-]\{16,\}\)@.*|\1|p' "${CHIO_SECRETS_DIR:-/run/secrets}/broker_url")
if [ -z "$credentials" ]; then
    echo "broker_url: expected amqp://USER:PASSWORD@HOST:5672//, the password of at least 16 characters out of" \
        "A-Z a-z 0-9 _ -" >&2
    exit 2
fi
cat >"$run/rabbitmq.conf" <<CONF
default_user = ${credentials%%:*}
default_pass = ${credentials#*:}
# A guest without a password of this deployment does not exist.
loopback_users.guest = true
log.console = true
log.console.level = warning
log.file = false
CONF
export RABBITMQ_CONFIG_FILE="$run/rabbitmq.conf"
# Debian's program in the path switches users first; the one behind it runs as whoever it is.
server=/usr/lib/rabbitmq/bin/rabbitmq-server
[ -x "$server" ] || server=rabbitmq-server
exec "$server"
