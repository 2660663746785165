#!/usr/bin/env bash
# Compares what cuda-gdb shows with cubins of Oriole and of NVIDIA's ptxas: two kernels, one with guarded assignments, one with more variables
# than registers. Then runs compute-sanitizer on the second one. Needs a GPU (sm_90), CUDA 13.0 and a C++ compiler. docs/debugging.md has
# transcripts.
#
#   tools/debugger/run.sh target/release/ptxas [NVCC]     the exit status is 1 if a value differs; files are left in $OUT, or in a new folder
set -uo pipefail

[[ ${1-} ]] || { sed -n '6s/^# *//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
ours=$(readlink -f "$1")
nvcc=$(readlink -f "${2:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}")
bin=$(dirname "$nvcc")
out=${OUT:-$(mktemp -d)}
status=0
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
export CUDA_DEBUGGER_SOFTWARE_PREEMPTION=1
"$nvcc" -o "$out/host" host.cpp -lcuda || exit 2

for kernel in guard spill; do
    options=(-g -arch sm_90a)
    [[ $kernel == spill ]] && options+=(-maxrregcount 24)
    "$nvcc" -G -arch=sm_90a -ptx $kernel.cu -o "$out/$kernel.ptx" || exit 2
    "$ours" "${options[@]}" "$out/$kernel.ptx" -o "$out/$kernel.oriole.cubin" || exit 2
    "$bin/ptxas" "${options[@]}" "$out/$kernel.ptx" -o "$out/$kernel.ptxas.cubin" || exit 2
    for who in oriole ptxas; do
        echo "== $kernel, cubin of $who"
        timeout 60 "$out/host" "$out/$kernel.$who.cubin" $kernel || status=1
        timeout 120 "$bin/cuda-gdb" -batch -x $kernel.gdb --args "$out/host" "$out/$kernel.$who.cubin" $kernel >"$out/$kernel.$who.txt" 2>&1
        # Without addresses and numbers of multiprocessors, which differ from run to run.
        grep -E '^[a-z][a-z0-9]* = |hit Breakpoint|^[0-9]+\b' "$out/$kernel.$who.txt" | sed 's/0x[0-9a-f]*/ADDRESS/g; s/sm [0-9]*//' >"$out/$kernel.$who.values"
        echo "$(grep -c ' = ' "$out/$kernel.$who.values") values, $(grep -c 'optimized out' "$out/$kernel.$who.values") of them <optimized out>"
    done
    echo "== $kernel, differences (oriole <, ptxas >)"
    [[ -s $out/$kernel.ptxas.values ]] || { echo "cuda-gdb showed nothing:"; cat "$out/$kernel.ptxas.txt"; status=1; }
    if diff "$out/$kernel.oriole.values" "$out/$kernel.ptxas.values"; then echo none; else status=1; fi
done
for tool in memcheck racecheck initcheck; do
    timeout 60 "$bin/compute-sanitizer" --tool $tool "$out/host" "$out/spill.oriole.cubin" spill | tail -n 1
done
echo "files: $out"
exit $status
