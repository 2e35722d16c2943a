#!/bin/sh
# Run a command with a Docker engine of its own, on which the images of the tests are; nothing of either stays.
#
# usage: with_engine.sh COMMAND...     (as root; needs Debian's docker.io and debootstrap)
set -eu

folder=$(mktemp -d)
dockerd --data-root "$folder/data" --exec-root "$folder/run" --pidfile "$folder/pid" --host "unix://$folder/socket" \
    >"$folder/log" 2>&1 &
engine=$!
end() {
    kill "$engine" 2>/dev/null || true
    wait "$engine" || true
    # What an engine leaves mounted when it ends in a hurry must not change the command's exit code.
    umount "$folder"/run/netns/* 2>/dev/null || true
    rm -rf "$folder" || true
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

export DOCKER_HOST="unix://$folder/socket"
tries=60
until docker version >/dev/null 2>&1; do
    tries=$((tries - 1))
    if [ "$tries" -eq 0 ] || ! kill -0 "$engine" 2>/dev/null; then
        echo "the Docker engine did not start; its log ends with:" >&2
        tail -n 20 "$folder/log" >&2
        exit 1
    fi
    sleep 1
done
"$(dirname "$0")/make_images.sh" >/dev/null
"$@"
