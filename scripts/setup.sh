#!/bin/sh
# Makes the project's own environment:  scripts/setup.sh core | dev
#
# core: what users get (requirements/core.txt).  dev: everything the tests and checks need (requirements/dev.txt).
# Uses uv from PATH, else puts uv into the environment, else falls back to plain pip. Every download is checked
# against the hashes in requirements/. A second run with nothing changed does nothing; `core` after `dev` removes
# nothing.
#
# PYTHON  the Python to use (else the first of python3, python3.14 to python3.11, python that is 3.11 or newer)
# VENV    the environment's folder (else .venv)
set -eu
cd "$(dirname "$0")/.."
level=${1:-core}
venv=${VENV:-.venv}
python=$venv/bin/python
is_new_enough='import sys; sys.exit(sys.version_info < (3, 11))'

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo none; }

choose_python() {
    if [ -n "${PYTHON:-}" ]; then
        [ "$(version_of "$PYTHON")" != none ] || fail "PYTHON=$PYTHON does not start."
        "$PYTHON" -c "$is_new_enough" ||
            fail "PYTHON=$PYTHON is version $(version_of "$PYTHON"); earmark needs Python 3.11 or newer."
        echo "$PYTHON"
        return
    fi
    for candidate in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if "$candidate" -c "$is_new_enough" 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    fail "earmark needs Python 3.11 or newer; python3 here is version $(version_of python3)." \
        "Install one, or name it: make PYTHON=/path/to/python3.12 ..."
}

make_environment() {
    if [ -x "$python" ] && "$python" -c "$is_new_enough" 2>/dev/null; then
        [ -z "${PYTHON:-}" ] || [ "$(version_of "$PYTHON")" = "$(version_of "$python")" ] && return
    fi
    chosen=$(choose_python) || exit 1
    [ ! -e "$venv" ] || [ -e "$venv/pyvenv.cfg" ] || fail "$venv is there already and is no Python environment."
    say "making $venv with Python $(version_of "$chosen")"
    rm -rf "$venv"
    "$chosen" -m venv "$venv" >/dev/null 2>&1 && return
    rm -rf "$venv"
    if command -v uv >/dev/null 2>&1; then
        uv venv --quiet --seed --python "$chosen" "$venv"
    else
        "$chosen" -m venv "$venv" ||
            fail "$chosen cannot make an environment; its venv module is missing (on Debian: apt install python3-venv)."
    fi
}

find_uv() { # prints a uv that starts, installing it into the environment when the machine has none
    for candidate in uv "$venv/bin/uv"; do
        if "$candidate" --version >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    if "$python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt >&2 &&
        "$venv/bin/uv" --version >/dev/null 2>&1; then
        echo "$venv/bin/uv"
    fi
}

install() { # arguments as for "pip install"
    if [ -n "$uv" ]; then
        "$uv" pip install --quiet --python "$python" "$@" && return
        say "uv did not manage; trying plain pip"
    fi
    "$python" -m pip install --quiet --disable-pip-version-check "$@"
}

state() { cat pyproject.toml requirements/tools.txt "requirements/$1.txt" scripts/setup.sh | cksum; }
is_current() { [ -x "$venv/bin/earmark" ] && [ "$(cat "$venv/.ready-$1" 2>/dev/null)" = "$(state "$1")" ]; }

case $level in core | dev) ;; *) fail "say core or dev" ;; esac
make_environment
if is_current "$level" || { [ "$level" = core ] && is_current dev; }; then
    exit 0
fi
say "installing the $level requirements into $venv"
uv=$(find_uv)
install --require-hashes -r "requirements/$level.txt"
install --require-hashes -r requirements/tools.txt
install --no-deps --no-build-isolation --editable .
state "$level" >"$venv/.ready-$level"
say "ready"
