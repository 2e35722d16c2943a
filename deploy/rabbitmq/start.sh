#!/bin/sh
# Start RabbitMQ with the users of users.conf and no other, listening on its AMQP port and nowhere else.
#
# CHIO_SECRETS_DIR  where the secrets broker_url_<user> are                       (/run/secrets)
# CHIO_RUN_DIR      where configuration and definitions are written, in memory    (/tmp)
set -eu
umask 077

here=$(cd "$(dirname "$0")" && pwd)
run=${CHIO_RUN_DIR:-/tmp}
mkdir -p "$run"
"$here/definitions.sh" "${CHIO_SECRETS_DIR:-/run/secrets}" >"$run/definitions.json"
cat >"$run/rabbitmq.conf" <<CONF
# At each start, so that a new password counts after a restart.
load_definitions = $run/definitions.json
log.console = true
log.console.level = warning
log.file = false
CONF
export RABBITMQ_CONFIG_FILE="$run/rabbitmq.conf"
# Plugins open ports of their own: an image may bring one that shows metrics to anybody.
echo '[].' >"$run/enabled_plugins"
export RABBITMQ_ENABLED_PLUGINS_FILE="$run/enabled_plugins"
# One node: Erlang's own ports are for the tools beside it, and its data is under a name that no host changes.
export RABBITMQ_NODENAME="${RABBITMQ_NODENAME:-rabbit@localhost}" ERL_EPMD_ADDRESS=127.0.0.1
export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1} ${RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS:-}"
# A broken start writes here; the root file system may be read-only.
export RABBITMQ_LOG_BASE="${RABBITMQ_LOG_BASE:-$run/log}" ERL_CRASH_DUMP_SECONDS=0
# Debian's program in the path switches users first; the one behind it runs as whoever it is.
server=/usr/lib/rabbitmq/bin/rabbitmq-server
[ -x "$server" ] || server=rabbitmq-server
exec "$server"
