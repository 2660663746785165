#!/usr/bin/env bash
# Builds the demo page of examples/web with the compiler as WebAssembly, under target/web-demo.
#
#   tools/web-demo.sh                 build
#   tools/web-demo.sh --serve [PORT]  build, then serve the page on http://localhost:PORT/ (8000)
#   tools/web-demo.sh --check         build, then test the page in headless Chromium (tools/web/README.md)
#
# Needs cargo and the target wasm32-unknown-unknown (rustup target add wasm32-unknown-unknown), and python3 to serve and test.
# PYTHON is the Python that has playwright, for --check. PROFILE chooses the cargo profile: web (default), or quick for a build that takes less time and runs slower.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
profile=${PROFILE:-web}
triple=wasm32-unknown-unknown
# Bytes. The compiler recurses over nested control flow; the default of one MiB is that of small programs.
stack=16777216

usage() { sed -n '4,6s/^# *//p' "${BASH_SOURCE[0]}"; }
case ${1-} in
    "" | --serve | --check) ;;
    -h | --help) usage; exit ;;
    *) usage >&2; exit 2 ;;
esac

cd "$root"
if [[ ! -d $(rustc --print sysroot)/lib/rustlib/$triple ]]; then
    echo "web-demo.sh: the target $triple is not installed; run: rustup target add $triple" >&2
    exit 1
fi
target=$(cargo metadata --no-deps --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')

CARGO_ENCODED_RUSTFLAGS=$(tools/remap-flags.sh "$target")
export CARGO_ENCODED_RUSTFLAGS
cargo rustc --locked -p oriole-wasm --profile "$profile" --lib --crate-type cdylib --target "$triple" -- -C "link-arg=-zstack-size=$stack"

out=$target/web-demo
mkdir -p "$out"
install -m 644 examples/web/*.{html,css,js,mjs} examples/*.ptx "$out/"
install -m 644 "$target/$triple/$profile/oriole_wasm.wasm" "$out/oriole.wasm"
printf '%s: oriole.wasm has %s bytes, %s compressed with gzip\n' "$out" "$(wc -c < "$out/oriole.wasm")" "$(gzip -9 -c "$out/oriole.wasm" | wc -c)"

case ${1-} in
    --serve) exec python3 -m http.server --bind 127.0.0.1 --directory "$out" "${2:-8000}" ;;
    --check) shift; exec "${PYTHON:-python3}" tools/web/check.py --pages "$out" "$@" ;;
esac
