#!/bin/sh
# Run a command with a Docker engine of its own, on which the images of the tests are; nothing of either stays.
#
# usage: with_engine.sh COMMAND...     (as root; needs Debian's docker.io and debootstrap)
#
# The engine asks as little of the machine as it can: no bridge but those of the tests' own networks, and where the kernel
# lacks what a firewall needs, no rules. Builds use the machine's network.
set -eu

folder=$(mktemp -d)
export DOCKER_HOST="unix://$folder/socket"
engine=

start() {
    dockerd --data-root "$folder/data" --exec-root "$folder/run" --pidfile "$folder/pid" --host "$DOCKER_HOST" \
        --bridge none "$@" >>"$folder/log" 2>&1 &
    engine=$!
    for _ in $(seq 120); do
        docker version >/dev/null 2>&1 && return
        kill -0 "$engine" 2>/dev/null || return 1
        sleep 0.5
    done
    kill "$engine"
    wait "$engine"
    return 1
}

end() {
    # Nothing here may change the command's exit code or write after its last line.
    {
        docker ps --all --quiet | xargs -r docker rm --force --volumes
        docker network prune --force
        kill "$engine"
        wait "$engine"
        awk -v folder="$folder/" 'index($2, folder) == 1 { print $2 }' /proc/mounts | sort -r | xargs -r umount --lazy
        rm -rf "$folder"
    } >/dev/null 2>&1 || true
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fail() {
    echo "$1; the engine's log ends with:" >&2
    tail -n 20 "$folder/log" >&2
    exit 1
}

start || start --iptables=false || fail "the Docker engine did not start"
# Once more where an archive was away for a moment: what was made is kept.
make_images=$(dirname "$0")/make_images.sh
"$make_images" >/dev/null || "$make_images" >/dev/null || fail "the images were not made"
"$@"
