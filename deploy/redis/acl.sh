#!/bin/sh
# Write the server's ACL file to standard output: users.acl with the passwords out of the secrets, as their SHA-256.
#
# usage: acl.sh DIRECTORY [RIGHT...]
#   DIRECTORY  holds redis_url_<user>: redis://<user>:<password>@<host>:<port>/<database>
#              and may hold redis_users_more: users of your own, such as an administrator, as lines of an ACL file
#   RIGHT      is left out for everybody: the server does not know it
set -eu

secrets=$1
shift
template=$(dirname "$0")/users.acl

password_of() {
    # sed prints nothing unless the user's name and a password of one safe alphabet stand where they belong.
    sed -n "s|^rediss*://$1:\([A-Za-z0-9_-]\{16,\}\)@.*|\1|p" "$secrets/redis_url_$1"
}

awk '/^#/ || /^$/ { next }  /^[ \t]/ { sub(/^[ \t]+/, " "); line = line $0; next }
     { if (line) print line; line = $0 }  END { if (line) print line }' "$template" |
while read -r _ user rights; do
    for unknown; do
        rights=$(printf '%s ' "$rights" | sed "s/ $unknown / /")
    done
    case $rights in
    *@password*)
        if [ ! -e "$secrets/redis_url_$user" ]; then
            echo "no secret redis_url_$user: there is no user $user" >&2
            continue
        fi
        password=$(password_of "$user")
        if [ -z "$password" ]; then
            echo "redis_url_$user: expected redis://$user:PASSWORD@HOST:PORT/0, the password of at least 16 characters" \
                "out of A-Z a-z 0-9 _ -" >&2
            exit 2
        fi
        digest=$(printf %s "$password" | sha256sum | cut -d ' ' -f 1)
        echo "user $user ${rights%%@password*}#$digest${rights#*@password}"
        ;;
    *) echo "user $user $rights" ;;
    esac
done
if [ -e "$secrets/redis_users_more" ]; then
    cat "$secrets/redis_users_more"
fi
