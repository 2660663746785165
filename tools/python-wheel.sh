#!/usr/bin/env bash
# Builds the wheel of the Python package with the programs `oriole` and `ptxas` in it, installs it in a fresh environment, and tests it.
#
#   tools/python-wheel.sh            build, install, test
#   tools/python-wheel.sh --no-test  build only
#
# Needs cargo, python3 (3.9 or later) and a package registry for maturin and pytest. Prints the path and the size of the wheel.
# Everything is written under crates/python/target, except the programs (crates/python/python/oriole/bin), which git ignores.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
package=$root/crates/python
target=$package/target

case "${1-}" in
    "" | --no-test) ;;
    *) sed -n '4,5s/^# *//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac

step() { printf '\n== %s (%s s)\n' "$*" "$SECONDS"; }

cd "$package"
export CARGO_TARGET_DIR=$target
# Neither the programs nor the module name folders of this machine, and the files in the wheel have the time of the last commit.
CARGO_ENCODED_RUSTFLAGS=$("$root/tools/remap-flags.sh" "$target")
export CARGO_ENCODED_RUSTFLAGS
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 1000000000)}
export SOURCE_DATE_EPOCH

step "programs"
# From the workspace of the package, so that the module and the programs share all compiled crates.
cargo build --release --locked -p oriole-cli --bins
mkdir -p python/oriole/bin
suffix=
[[ -f $target/release/ptxas.exe ]] && suffix=.exe
install -m 755 "$target/release/oriole$suffix" "$target/release/ptxas$suffix" python/oriole/bin/

step "tools"
[[ -x $target/build-env/bin/python ]] || python3 -m venv "$target/build-env"
"$target/build-env/bin/python" -m pip install --quiet --disable-pip-version-check 'maturin>=1.7,<2'

step "wheel"
rm -rf "$target/wheels"
"$target/build-env/bin/maturin" build --release --locked --out "$target/wheels" --interpreter "$target/build-env/bin/python"
wheels=("$target"/wheels/*.whl)
[[ ${#wheels[@]} == 1 && -f ${wheels[0]} ]] || { echo "python-wheel.sh: expected one wheel in $target/wheels" >&2; exit 1; }

step "paths"
rm -rf "$target/unpacked"
python3 -m zipfile -e "${wheels[0]}" "$target/unpacked"
for path in "$root" "${CARGO_HOME:-$HOME/.cargo}"; do
    if found=$(grep -rlF -- "$path" "$target/unpacked"); then
        echo "python-wheel.sh: these files of the wheel name $path: $found" >&2
        exit 1
    fi
done

if [[ ${1-} != --no-test ]]; then
    step "install"
    rm -rf "$target/test-env"
    python3 -m venv "$target/test-env"
    "$target/test-env/bin/python" -m pip install --quiet --disable-pip-version-check pytest mypy "${wheels[0]}"

    step "types"
    # The installed package, as users of a type checker see it.
    "$target/test-env/bin/python" -m mypy --strict --cache-dir "$target/mypy" -p oriole

    step "tests"
    "$target/test-env/bin/python" -m pytest -q -p no:cacheprovider tests
fi

step "done"
printf '%s: %s bytes\n' "${wheels[0]#"$root"/}" "$(wc -c < "${wheels[0]}")"
