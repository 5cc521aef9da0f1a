#!/bin/sh
# Owns .venv: builds it from the hash lock, and only when the lock or the interpreter changed.
#
#   scripts/environment.sh run    what the gateway needs
#   scripts/environment.sh dev    that, and what checks and tests need (a superset: `run` then does nothing)
#   scripts/environment.sh fuzz   that, and what make fuzz needs, in a .venv-fuzz of its own
#
# PYTHON selects the interpreter (python3 by default; 3.11 or newer).
set -eu

kind=${1:?usage: scripts/environment.sh run|dev|fuzz}
python=${PYTHON:-python3}
case $kind in
    fuzz) venv=${VENV:-.venv-fuzz} ;;
    *) venv=${VENV:-.venv} ;;
esac
cd "$(dirname "$0")/.."

fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

command -v "$python" >/dev/null 2>&1 || fail \
    "No interpreter called '$python' was found." \
    "Install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3.12 ..."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail \
    "'$python' is $("$python" --version 2>&1); Python 3.11 or newer is needed." \
    "Name a newer one: make PYTHON=python3.12 ..."
"$python" -c 'import venv, ensurepip' 2>/dev/null || fail \
    "'$python' cannot make virtual environments: its venv or ensurepip module is missing." \
    "On Debian and Ubuntu: apt-get install python3-venv"

digest() {
    "$python" -c 'import hashlib, sys
h = hashlib.sha256(sys.version.encode())
for name in sys.argv[1:]:
    h.update(open(name, "rb").read())
print(h.hexdigest())' "$@"
}

stamped() { # stamped FILE DIGEST: the stamp says that this digest is what is installed
    [ -x "$venv/bin/python" ] && [ -f "$venv/$1" ] && [ "$(cat "$venv/$1")" = "$2" ]
}

locked() { # installs exactly what the lock lists, each file by its hash
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-deps \
        --require-hashes --requirement "$1"
}

build_digest=$(digest requirements/build.txt)
run_digest=$(digest requirements/build.txt requirements/run.txt)
dev_digest=$(digest requirements/build.txt requirements/run.txt requirements/dev.txt)
fuzz_digest=$(digest requirements/build.txt requirements/dev.txt requirements/fuzz.txt)

case $kind in
    run) stamped .stamp-dev "$dev_digest" || stamped .stamp-run "$run_digest" || rebuild=run.txt ;;
    dev) stamped .stamp-dev "$dev_digest" || rebuild=dev.txt ;;
    fuzz) stamped .stamp-fuzz "$fuzz_digest" || rebuild="dev.txt fuzz.txt" ;;
    *) fail "unknown kind of environment '$kind': say run, dev or fuzz" ;;
esac

if [ -n "${rebuild:-}" ]; then
    echo "Building $venv from requirements: $rebuild with $("$python" --version) ..."
    # dev only adds to run: a gateway that `make run` is serving from this .venv is left alone.
    if ! stamped .stamp-run "$run_digest"; then
        "$python" -m venv --clear "$venv"
        locked requirements/build.txt
    fi
    for lock in $rebuild; do
        locked "requirements/$lock"
    done
    case $kind in
        run) echo "$run_digest" >"$venv/.stamp-run" ;;
        dev) echo "$dev_digest" >"$venv/.stamp-dev" ;;
        fuzz) echo "$fuzz_digest" >"$venv/.stamp-fuzz" ;;
    esac
fi

# The project itself: from this checkout, built with the locked build tools, its dependencies already there.
project_digest=$(digest pyproject.toml)
if ! stamped .stamp-project "$project_digest$build_digest"; then
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-deps \
        --no-build-isolation --no-index --editable .
    echo "$project_digest$build_digest" >"$venv/.stamp-project"
fi
