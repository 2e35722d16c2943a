#!/bin/sh
# Make every image that the tests of this folder run: a base, the project's own, a Redis and a RabbitMQ.
#
# usage: make_images.sh     (DOCKER_HOST names the engine; needs debootstrap and root)
# Nothing is pulled. A base that is there already is kept, and so are the layers of the others.
set -eu
cd "$(dirname "$0")/../.."

base=chio-test/base:bookworm
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
# Debian's engine has the old builder alone; newer clients ask for a plug-in unless told so.
export DOCKER_BUILDKIT=0

build() {
    docker build --network host --build-arg BASE_IMAGE="$base" --tag "chio-test/$1" --file "$2" "$3" >"$logs/$1" 2>&1 || {
        echo "chio-test/$1 was not built; the builder's last lines are:" >&2
        tail -n 20 "$logs/$1" >&2
        return 1
    }
}

docker image inspect "$base" >/dev/null 2>&1 || tests/containers/make_base.sh "$base"
# Side by side: while one fetches, another one unpacks.
build redis tests/containers/redis.Dockerfile tests/containers &
redis=$!
build rabbitmq tests/containers/rabbitmq.Dockerfile tests/containers &
rabbitmq=$!
build worker Dockerfile . &
worker=$!
failed=0
for image in "$redis" "$rabbitmq" "$worker"; do
    wait "$image" || failed=1
done
exit "$failed"
