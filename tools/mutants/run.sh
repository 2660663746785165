#!/usr/bin/env bash
# Unpacks mutants.tar.xz, which lies next to this script and the runner, and runs the mutants; the result goes to $OUT.
# usage: OUT=FOLDER run.sh [LIMIT-SECONDS] [options of `oriole-mutants run`]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
limit=${1:-460}
shift || true
work=$(mktemp -d)
if command -v xz > /dev/null; then
    tar -C "$work" -xJf "$here/mutants.tar.xz"
else
    python3 -c "import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])" "$here/mutants.tar.xz" "$work"
fi
path=$(cat "$work/path")
mkdir -p "$(dirname "$path")"
if [ -e "$path" ] && [ ! -L "$path" ]; then
    echo "$path is in the way" >&2
    exit 1
fi
ln -sfn "$work" "$path"
"$here/oriole-mutants" run --copy "$path" --out "${OUT:?}" --threads "$(nproc)" --limit-seconds "$limit" --unit-seconds 60 "$@"
