#!/bin/sh
# Write the node's definitions to standard output: the users and rights of users.conf, the passwords out of the secrets.
#
# usage: definitions.sh DIRECTORY
#   DIRECTORY  holds broker_url_<user>: amqp://<user>:<password>@<host>:<port>//
set -eu

secrets=$1
rights=$(dirname "$0")/users.conf

password_of() {
    # sed prints nothing unless the user's name and a password of one safe alphabet stand where they belong.
    sed -n "s|^amqps*://$1:\([A-Za-z0-9_-]\{16,\}\)@.*|\1|p" "$secrets/broker_url_$1"
}

pattern_of() {
    # A user without a line gets the pattern that fits no name; a backslash is doubled for JSON.
    pattern=$(awk -v user="$1" -v right="$2" '$1 == user && $2 == right { print $3 }' "$rights")
    printf %s "${pattern:-^\$}" | sed 's/\\/\\\\/g'
}

users= permissions=
for user in $(awk '/^[a-z]/ { print $1 }' "$rights" | sort -u); do
    if [ ! -e "$secrets/broker_url_$user" ]; then
        echo "no secret broker_url_$user: there is no user $user" >&2
        continue
    fi
    password=$(password_of "$user")
    if [ -z "$password" ]; then
        echo "broker_url_$user: expected amqp://$user:PASSWORD@HOST:5672//, the password of at least 16 characters" \
            "out of A-Z a-z 0-9 _ -" >&2
        exit 2
    fi
    users="$users${users:+,
  }{\"name\": \"$user\", \"password\": \"$password\", \"tags\": \"\"}"
    permissions="$permissions${permissions:+,
  }{\"user\": \"$user\", \"vhost\": \"/\", \"configure\": \"$(pattern_of "$user" configure)\",
   \"write\": \"$(pattern_of "$user" write)\", \"read\": \"$(pattern_of "$user" read)\"}"
done
cat <<JSON
{"vhosts": [{"name": "/"}],
 "users": [
  $users],
 "permissions": [
  $permissions]}
JSON
