#!/usr/bin/env bash
# Runs C programs with Oriole's library under AddressSanitizer and UndefinedBehaviorSanitizer (static library), and under Valgrind (shared
# library): memory errors, undefined behaviour of the callers, and leaks make it fail.
#
#   tools/c-library-sanitizers.sh              builds the library (dev profile) and runs all
#   tools/c-library-sanitizers.sh --from DIR   takes liboriole_c.a and liboriole_c.so from a folder where cargo has built them
#
# Needs a C compiler with the sanitizers (CC, or cc). Without Valgrind, a line that begins with `skipped:` says so.
# Stable Rust does not instrument the library itself; the sanitizers check its calls of malloc, realloc and free, copies by the C library, and
# the programs. Valgrind checks every access of the library too.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
from=
case ${1-} in
    "") ;;
    --from) from=${2-} ;;
    *) sed -n '5,6s/^# *//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
if [[ -z $from ]]; then
    cargo build -p oriole-capi
    from=${CARGO_TARGET_DIR:-$root/target}/debug
fi
from=$(cd "$from" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
step() { printf '\n== %s (%s s)\n' "$*" "$SECONDS"; }

flags=(-std=c11 -g -O1 -Wall -Wextra -Werror -Icrates/capi/include)
sources=(crates/capi/tests/flow.c crates/capi/tests/threads.c examples/c/compile.c)
for source in "${sources[@]}"; do
    name=$(basename "$source" .c)
    "${CC:-cc}" "${flags[@]}" -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer "$source" "$from/liboriole_c.a" \
        -lpthread -ldl -lm -o "$work/$name-asan"
    "${CC:-cc}" "${flags[@]}" "$source" -L"$from" -Wl,-rpath,"$from" -loriole_c -lpthread -o "$work/$name"
done

# run ENDING PREFIX...: runs the programs whose names have this ending, with the words of PREFIX before the command.
run() {
    local ending=$1
    shift
    "$@" "$work/flow$ending" "$work/flow.cubin" >"$work/log"
    "$@" "$work/threads$ending" examples/block_sum.ptx 3 1
    "$@" "$work/compile$ending" examples/block_sum.ptx "$work/compile.cubin" sm_90a >"$work/log"
}

step "AddressSanitizer, UndefinedBehaviorSanitizer, leaks"
ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:check_initialization_order=1 UBSAN_OPTIONS=print_stacktrace=1 run -asan
echo "ok: $("${CC:-cc}" --version | head -n 1)"

step "Valgrind"
if command -v valgrind >/dev/null; then
    run "" valgrind --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,indirect --show-leak-kinds=definite,indirect
    echo "ok: $(valgrind --version)"
else
    echo "skipped: there is no valgrind"
fi
step "done"
