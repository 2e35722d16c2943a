#!/bin/sh
# Make the image that the others build on, with debootstrap, where no registry of images can be reached.
#
# usage: make_base.sh IMAGE
# It is this machine's Debian release, with this machine's package archive and trusted authorities, so that apt and pip
# work in a build as they do here. For tests: a deployment builds on a published image (BASE_IMAGE in Dockerfile).
set -eu

image=$1
. /etc/os-release
archive_of() {
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' "Codename: $1" | sort -u | head -n 1
}
archive=$(archive_of "$VERSION_CODENAME")
if [ -z "$archive" ]; then
    apt-get -qq -o Acquire::Retries=5 update
    archive=$(archive_of "$VERSION_CODENAME")
fi
[ -n "$archive" ] || { echo "apt knows no archive of $VERSION_CODENAME: check this machine's apt sources" >&2; exit 1; }
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv,tini "$VERSION_CODENAME" "$root" "$archive" \
    >"$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; exit 1; }
rm -f "$root.log"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\nretries = 10\ntimeout = 60\n' >"$root/etc/pip.conf"
printf 'Acquire::Retries "5";\nDpkg::Options { "--force-unsafe-io"; };\n' >"$root/etc/apt/apt.conf.d/80build"
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/usr/share/doc/* "$root"/usr/share/locale/* "$root"/usr/share/man/*
tar -C "$root" --exclude='./proc/*' --exclude='./sys/*' -c . |
    docker import --change 'ENV LANG=C.UTF-8' --change 'CMD ["/bin/sh"]' - "$image" >/dev/null
