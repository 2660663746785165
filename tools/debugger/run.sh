#!/usr/bin/env bash
# The sessions of docs/debugging.md: cuda-gdb with cubins of Oriole and of NVIDIA's ptxas, which must show the same values and lines;
# compute-sanitizer, nvdisasm, cuobjdump and Nsight Compute with cubins of Oriole; the profilers of PyTorch and Triton, if python3 has them.
# Needs a GPU (sm_90), CUDA 13.0 and a C++ compiler.
#
#   tools/debugger/run.sh target/release/ptxas [NVCC]     the exit status is 1 if something differs; files are left in $OUT, or in a new folder
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

fail() { echo "FAILED: $*"; status=1; }

# build NAME SOURCE MODE OPTION...: makes NAME.oriole.cubin and NAME.ptxas.cubin of a source file, for -G or -lineinfo.
build() {
    local name=$1 source=$2 options=(-arch sm_90a "${@:4}")
    if [[ $3 == -G ]]; then options+=(-g); else options+=(-lineinfo); fi
    "$nvcc" "$3" -arch=sm_90a -ptx "$source.cu" -o "$out/$name.ptx" || exit 2
    "$ours" "${options[@]}" "$out/$name.ptx" -o "$out/$name.oriole.cubin" || exit 2
    "$bin/ptxas" "${options[@]}" "$out/$name.ptx" -o "$out/$name.ptxas.cubin" || exit 2
}

# compare OURS THEIRS: prints the lines that differ. A value that is <optimized out> with ptxas only is no difference.
compare() {
    paste -d $'\x01' "$1" "$2" | awk -F $'\x01' '
        $1 == $2 { next }
        { name = $2; sub(/ = .*/, "", name) }
        $2 == name " = <optimized out>" && index($1, name " = ") == 1 { more++; next }
        { print "< " $1; print "> " $2; other++ }
        END { if (more) print more " values that ptxas does not show"; exit other > 0 }'
}

# debug NAME KERNEL N THREADS [COMPARE]: runs both cubins alone and in cuda-gdb, and compares results, and unless COMPARE is no, values and lines.
debug() {
    local name=$1 kernel=$2 who
    for who in oriole ptxas; do
        timeout 60 "$out/host" "$out/$name.$who.cubin" "$kernel" "$3" "$4" >"$out/$name.$who.results" || fail "$name: the program of $who"
        timeout 120 "$bin/cuda-gdb" -batch -x "$kernel.gdb" --args "$out/host" "$out/$name.$who.cubin" "$kernel" "$3" "$4" >"$out/$name.$who.txt" 2>&1
        # Without addresses and numbers of multiprocessors, which differ from run to run.
        grep -E '^[a-z$][a-z0-9]* = |hit Breakpoint|^[0-9]+\b|^#[0-9]' "$out/$name.$who.txt" | sed 's/0x[0-9a-f]*/ADDRESS/g; s/sm [0-9]*//' >"$out/$name.$who.values"
        echo "== $name, cubin of $who: $(grep -c '^[a-z$][a-z0-9]* = ' "$out/$name.$who.values") values, $(grep -c 'optimized out' "$out/$name.$who.values") lines with <optimized out>," \
            "$(grep -c 'hit Breakpoint' "$out/$name.$who.values") breakpoints, $(grep -c '^#' "$out/$name.$who.values") frames"
    done
    echo "== $name, differences (oriole <, ptxas >)"
    grep -q 'hit Breakpoint' "$out/$name.ptxas.values" || { cat "$out/$name.ptxas.txt"; fail "$name: cuda-gdb did not stop"; }
    cmp "$out/$name.oriole.results" "$out/$name.ptxas.results" || fail "$name: results"
    if compare "$out/$name.oriole.values" "$out/$name.ptxas.values"; then
        echo none
    elif [[ ${5-} == no ]]; then
        grep -q 'hit Breakpoint' "$out/$name.oriole.values" || fail "$name: cuda-gdb did not stop"
    else
        fail "$name: values or lines"
    fi
}

# sanitize TOOL NAME KERNEL N THREADS PATTERN: fails if the report of compute-sanitizer has no line with the pattern.
sanitize() {
    echo "== compute-sanitizer --tool $1, $2, $3"
    timeout 120 "$bin/compute-sanitizer" --tool "$1" --show-backtrace device "$out/host" "$out/$2.oriole.cubin" "$3" "$4" "$5" >"$out/$2.$1.$3.$5.txt" 2>&1
    head -n 12 "$out/$2.$1.$3.$5.txt"; tail -n 1 "$out/$2.$1.$3.$5.txt"
    grep -qE "$6" "$out/$2.$1.$3.$5.txt" || fail "compute-sanitizer --tool $1 $3: no $6"
}

for kernel in oob deep objects loop guard; do
    build $kernel $kernel -G
    debug $kernel $kernel $([[ $kernel == loop ]] && echo 20 || echo 4) 32
done
# One thread: the order in which the threads of a divergent warp reach a breakpoint is not fixed.
build flow flow -G
debug flow flow 8 1
build spill spill -G -maxrregcount 24
debug spill spill 4 32
# Optimized code: the order of lines may differ from that of ptxas.
build lines oob -lineinfo
debug lines oob 4 32 no

build race race -lineinfo
# With 64 threads the store of line 17 is behind the end of the array, with 32 threads only that of the inlined function.
sanitize memcheck lines oob 101 64 'oob.cu:17'
sanitize memcheck lines oob 101 32 'oob.cu:4'
sanitize racecheck race race 1 64 'race.cu:[56]'
sanitize initcheck race uninitialized 1 32 'race.cu:11'
for tool in memcheck racecheck initcheck synccheck; do
    sanitize $tool spill spill 4 32 '(ERROR|RACECHECK) SUMMARY: 0 '
    sanitize $tool flow flow 8 1 '(ERROR|RACECHECK) SUMMARY: 0 '
done

echo "== nvdisasm and cuobjdump"
for option in -g -gi -gp; do
    "$bin/nvdisasm" $option "$out/lines.oriole.cubin" >"$out/nvdisasm$option.txt" 2>&1 || fail "nvdisasm $option"
    echo "nvdisasm $option: $(grep -c '^\s*//##' "$out/nvdisasm$option.txt") lines of positions"
    grep -qE '//## File ".*oob.cu", line 17|//## .*\.ptx|//## .*\.nv_debug_ptx_txt' "$out/nvdisasm$option.txt" || fail "nvdisasm $option: no lines"
done
"$bin/cuobjdump" -sass -res-usage "$out/lines.oriole.cubin" | grep -E 'Function|REG:' || fail cuobjdump

echo "== Nsight Compute"
if ncu=$(command -v ncu || ls /usr/local/cuda/bin/ncu /opt/nvidia/nsight-compute/*/ncu 2>/dev/null | tail -n 1) && [[ $ncu ]]; then
    timeout 200 "$ncu" --set full --import-source yes --clock-control none -f -o "$out/report" "$out/host" "$out/lines.oriole.cubin" oob 4 32 >"$out/ncu.txt" 2>&1 || { tail "$out/ncu.txt"; fail ncu; }
    "$ncu" --import "$out/report.ncu-rep" --page source --print-source cuda,sass --csv >"$out/ncu.csv" 2>&1
    cut -d, -f1-4 "$out/ncu.csv" | head -n 60
    grep -q 'out\[i\] = v;' "$out/ncu.csv" || fail "ncu: no source line"
else
    fail "there is no ncu"
fi

if python3 -c 'import torch, triton' 2>/dev/null; then
    echo "== profilers of PyTorch and Triton"
    timeout 240 python3 profilers.py "$ours" "$out" || fail "profilers"
else
    echo "skipped: python3 has no PyTorch and Triton"
fi
echo "files: $out"
exit $status
