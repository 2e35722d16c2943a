#!/bin/sh
# Make the secrets of docker-compose.yml, each in a file of its own, at random; one that is there already stays.
#
# usage: make_secrets.sh [DIRECTORY]     (deploy/secrets)
# Containers run as users of their own and must read the files; nobody else on this machine gets into the folder.
set -eu

directory=${1:-$(dirname "$0")/secrets}
mkdir -p "$directory"
chmod 700 "$directory"

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

keep() {
    [ -e "$directory/$1" ] || printf '%s\n' "$2" >"$directory/$1"
    chmod 644 "$directory/$1"
}

for user in worker producer operator flower beat reader; do
    keep "redis_url_$user" "redis://$user:$(random)@redis:6379/0"
    keep "broker_url_$user" "amqp://$user:$(random)@rabbitmq:5672//"
done
keep partner_secret "whsec_$(head -c 32 /dev/urandom | base64)"
keep flower_auth "operator:$(random)"
