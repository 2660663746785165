#!/usr/bin/env bash
# Prints the value of CARGO_ENCODED_RUSTFLAGS that keeps paths of this machine out of programs. Further arguments are flags of rustc.
#
#   CARGO_ENCODED_RUSTFLAGS=$(tools/remap-flags.sh TARGET_FOLDER [FLAG...]) cargo build ...
#
# Panic messages and line tables name source files: /oriole is this repository, /cargo the sources of dependencies, /target the build outputs.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[[ $# -gt 0 ]] || { sed -n '4s/^# *//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
# The last prefix that matches counts, so a target folder inside the repository comes after it.
flags=(--remap-path-prefix="$root=/oriole" --remap-path-prefix="${CARGO_HOME:-$HOME/.cargo}=/cargo" --remap-path-prefix="$1=/target" "${@:2}")
IFS=$'\x1f'
printf '%s' "${flags[*]}"
