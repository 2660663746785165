#!/usr/bin/env bash
# Packs an instrumented copy for a machine without Rust: the executables, stripped, the files that tests read, and the runner.
# usage: bundle.sh COPY RUNNER OUT-FOLDER
set -euo pipefail
copy=$(realpath "$1")
runner=$(realpath "$2")
out=$3
mkdir -p "$out"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
grep -v -e compare -e speed -e bundle -e sass_kernel_tests "$copy/units.tsv" | cut -f2 | while read -r program; do
    mkdir -p "$stage/$(dirname "${program#"$copy"/}")"
    strip -s -o "$stage/${program#"$copy"/}" "$program"
done
(cd "$copy" && find . -path ./target -prune -o -path "./tool-target*" -prune -o -type f ! -name '*.rs' ! -name '*.cu' -print0) |
    tar -C "$copy" --null -T - -cf - | tar -C "$stage" -xf -
# Executables hold the copy's path.
echo "$copy" > "$stage/path"
tar -C "$stage" --sort=name -cf - . | xz -T0 -6 > "$out/mutants.tar.xz"
strip -s -o "$out/oriole-mutants" "$runner"
cp "$(dirname "${BASH_SOURCE[0]}")/run.sh" "$out/run.sh"
ls -l "$out"
