#!/bin/sh
# Installs the Debian packages of requirements/debian.txt that are not there yet.
set -eu
cd "$(dirname "$0")/.."
missing=
for package in $(sed 's/#.*//' requirements/debian.txt); do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ]; then
    echo "The extra tests need Debian's packages$missing: run this as root, or install them first." >&2
    exit 1
fi
echo "Installing$missing ..."
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing >/dev/null
