#!/bin/sh
# Writes requirements/*.txt from pyproject.toml: exact versions with hashes, for every supported Python and platform,
# naming no registry and no path. Arguments go to uv (--upgrade).
set -eu
cd "$(dirname "$0")/.."
uv=uv
command -v uv >/dev/null 2>&1 || uv=${VENV:-.venv}/bin/uv
# Only the ordinary registry counts: a private mirror may hold fewer files, and so fewer hashes.
unset UV_INDEX_URL UV_EXTRA_INDEX_URL UV_DEFAULT_INDEX UV_INDEX UV_FIND_LINKS

lock() { # output, then what goes in
    output=requirements/$1.txt
    shift
    "$uv" pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --no-annotate --custom-compile-command "make lock" --output-file "$output" "$@"
}

mkdir -p requirements
lock core "$@" pyproject.toml
# Bound to the core's versions, so that the two environments never disagree.
lock dev "$@" --all-extras --group dev --constraint requirements/core.txt pyproject.toml
lock tools "$@" --group tools
lock uv "$@" --group uv

if grep -nE '://|(^|[ =])/|file:|^-' requirements/*.txt; then
    echo "lock: the lines above name a registry or a path" >&2
    exit 1
fi
