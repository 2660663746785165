#!/bin/bash
# Makes linked cubins for check.py: two modules that call each other, each half by Oriole at -O0 and -O3 and by ptxas, in all
# combinations, and both halves in one module. Needs the vendor's tools (tools/oracles.sh).
#
#     tools/linking/build.sh ORIOLE FOLDER && python3 tools/linking/check.py FOLDER/*.linked.cubin
#
# The second command needs CuPy and a GPU.
set -euo pipefail
oriole=$1
out=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
oracles=$("$here"/../oracles.sh)
nvlink=$(find -L "$oracles/.." -name nvlink -type f | head -1)
mkdir -p "$out"

for half in main library; do
    for level in 0 3; do
        "$oriole" compile -c "$here/$half.ptx" --arch sm_90a -O$level -o "$out/$half.oriole$level.o"
    done
    "$oracles/ptxas" -c -arch sm_90a "$here/$half.ptx" -o "$out/$half.ptxas.o"
done
for a in oriole0 oriole3 ptxas; do
    for b in oriole0 oriole3 ptxas; do
        "$nvlink" -arch sm_90a "$out/main.$a.o" "$out/library.$b.o" -o "$out/$a-$b.linked.cubin" 2> "$out/nvlink.log"
    done
done
for level in 0 3; do
    "$oriole" compile "$here/whole.ptx" --arch sm_90a -O$level -o "$out/whole-oriole$level.linked.cubin"
done
ls "$out"/*.linked.cubin | wc -l
