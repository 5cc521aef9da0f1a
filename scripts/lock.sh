#!/bin/sh
# Writes the locks: what builds, what runs, what tests, what fuzzes. Each file is pinned with the hashes of all its
# releases and names no registry, so that it installs from whatever registry or mirror pip is configured with.
# Resolved on the oldest supported Python; tests/tidy checks that nothing is pinned for that version alone.
#
#   scripts/lock.sh             keeps pins that still fit
#   scripts/lock.sh --upgrade   takes the newest releases
set -eu
cd "$(dirname "$0")/.."
notice="# Written by make lock: edit pyproject.toml or requirements/build.in instead."
compile() {
    target=$1
    shift
    "${VENV:-.venv}/bin/pip-compile" --quiet --generate-hashes --strip-extras --allow-unsafe \
        --no-header --no-emit-options --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
        --annotation-style=line --output-file="$target" "$@"
    sed -i '/^# The following packages are considered to be unsafe/d' "$target"
    grep -q "^$notice" "$target" || sed -i "1i $notice" "$target"
}
compile requirements/build.txt "$@" requirements/build.in
compile requirements/run.txt "$@" -c requirements/build.txt pyproject.toml
compile requirements/dev.txt "$@" -c requirements/build.txt -c requirements/run.txt \
    --extra otel --extra mariadb --extra test --extra dev pyproject.toml
compile requirements/fuzz.txt "$@" -c requirements/dev.txt requirements/fuzz.in
