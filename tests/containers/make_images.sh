#!/bin/sh
# Make every image that the tests of this folder run: a base, the project's own, a Redis and a RabbitMQ.
#
# usage: make_images.sh     (DOCKER_HOST names the engine; needs debootstrap and root)
# A base that is there already is kept, and so are the layers of the others.
set -eu
cd "$(dirname "$0")/../.."

base=chio-test/base:bookworm
docker image inspect "$base" >/dev/null 2>&1 || tests/containers/make_base.sh "$base"
# Debian's engine has the old builder alone; newer clients ask for a plug-in unless told so.
export DOCKER_BUILDKIT=0
build() { docker build --quiet --build-arg BASE_IMAGE="$base" --tag "chio-test/$1" --file "$2" "$3" 2>/dev/null; }
build worker Dockerfile .
build redis tests/containers/redis.Dockerfile tests/containers
build rabbitmq tests/containers/rabbitmq.Dockerfile tests/containers
