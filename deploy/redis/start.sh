#!/bin/sh
# Start a Redis or Valkey server with the users of users.acl; further arguments are options of the server.
#
# CHIO_SECRETS_DIR  where the secrets redis_url_<user> are          (/run/secrets)
# CHIO_RUN_DIR      where the ACL file is written, in memory        (/tmp)
# CHIO_REDIS_DIR    where its data is                               (/data)
# CHIO_REDIS_SERVER the server's program                            (valkey-server or redis-server in the path)
set -eu
umask 077

here=$(cd "$(dirname "$0")" && pwd)
run=${CHIO_RUN_DIR:-/tmp}
server=${CHIO_REDIS_SERVER:-$(command -v valkey-server || command -v redis-server)}

# Redis 7.0 does not know these; redis-py does without the first, CHIO_ADMIT_WAITAOF_MS needs the second.
case $("$server" --version) in
*'Redis server v=7.0.'*) set_aside='+client|setinfo +waitaof' ;;
*) set_aside= ;;
esac

mkdir -p "$run"
# shellcheck disable=SC2086  # two words
"$here/acl.sh" "${CHIO_SECRETS_DIR:-/run/secrets}" $set_aside >"$run/users.acl"
exec "$server" "$here/redis.conf" --dir "${CHIO_REDIS_DIR:-/data}" --aclfile "$run/users.acl" "$@"
