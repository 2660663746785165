#!/usr/bin/env bash
# Runs fuzz targets for some time each and prints one line about each:
#
#     fuzz/run.sh [-j JOBS] [-b FOLDER] SECONDS [TARGET...]
#
# Without targets all are run, one after the other; -j starts that many processes of each. -b takes the programs from a folder (and
# seeds from FOLDER/seeds/TARGET, if they are there) instead of building them. Corpora grow in fuzz/corpus/TARGET, and failing inputs
# are left in fuzz/artifacts/TARGET. The exit status is 1 if a target failed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

jobs=1 binaries=
while getopts j:b: option; do
    case $option in
    j) jobs=$OPTARG ;;
    b) binaries=$(cd "$OPTARG" && pwd) ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 1 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
seconds=$1
shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(check compile cubin asm profile header)

if [ -z "$binaries" ]; then
    cd "$here/.."
    RUSTC_BOOTSTRAP=1 cargo fuzz build -s none >&2
    host=$(rustc -vV | sed -n 's/^host: //p')
    binaries=$here/target/$host/release
fi

# The longest input in bytes, the memory in MiB and the seconds that one input may take.
limits_of() {
    case $1 in
    check) echo "20000 2048 10" ;;
    compile) echo "16000 3072 30" ;;
    cubin) echo "40000 2048 20" ;;
    asm) echo "60000 2048 20" ;;
    profile) echo "300000 2048 20" ;;
    header) echo "10000 2048 20" ;;
    *) echo "no target is called $1" >&2; exit 2 ;;
    esac
}

# Seeds: files that are there already, else written by the project's own tool.
seed() {
    local target=$1 corpus=$2
    [ -z "$(ls -A "$corpus")" ] || return 0
    if [ -d "$binaries/seeds/$target" ]; then
        cp -r "$binaries/seeds/$target/." "$corpus"
    elif [ "$target" = check ]; then
        cp "$here"/../corpus/*.ptx "$here"/../corpus/handwritten/*.ptx "$here"/../examples/*.ptx "$corpus"
    else
        (cd "$here/.." && cargo run --release -q -p oriole-fuzz-cases -- seeds "$target" "$corpus") >&2
    fi
}

status=0
for target in "${targets[@]}"; do
    limits=$(limits_of "$target")
    read -r max_len rss timeout <<<"$limits"
    corpus=$here/corpus/$target artifacts=$here/artifacts/$target
    mkdir -p "$corpus" "$artifacts"
    seed "$target" "$corpus"
    dictionary=()
    case $target in check | compile | header) dictionary=(-dict="$here/ptx.dict") ;; esac
    log=$artifacts/log.txt
    result=clean
    # -fork runs processes of their own, so that memory, time and crashes of one input do not end the run.
    "$binaries/$target" "$corpus" -fork="$jobs" -max_total_time="$seconds" -max_len="$max_len" -rss_limit_mb="$rss" \
        -timeout="$timeout" -artifact_prefix="$artifacts/" -ignore_crashes=1 -ignore_ooms=1 -ignore_timeouts=1 \
        "${dictionary[@]}" >"$log" 2>&1 || result="stopped with status $?"
    found=$(find "$artifacts" -type f \( -name 'crash-*' -o -name 'oom-*' -o -name 'timeout-*' \) | wc -l)
    [ "$found" -eq 0 ] || result="$found failing inputs in $artifacts"
    [ "$result" = clean ] || status=1
    cases=$(sed -n 's/^#\([0-9]*\): cov.*/\1/p' "$log" | tail -1)
    coverage=$(sed -n 's/^#[0-9]*: cov: \([0-9]*\).*/\1/p' "$log" | tail -1)
    printf '%-8s %6s s  %10s cases  coverage %7s  corpus %6s  %s\n' "$target" "$seconds" "${cases:-?}" "${coverage:-?}" \
        "$(find "$corpus" -type f | wc -l)" "$result"
done
exit $status
