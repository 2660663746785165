#!/usr/bin/env bash
# Installs the vendor tools that tests compare against ("oracles") under .oracles/ at the project root.
#
#   tools/oracles.sh          install or refresh, then print the folder with the binaries
#   tools/oracles.sh --path   print that folder if it is there and current, else exit 1
#
# Result:
#   .oracles/bin/     ptxas, nvdisasm, cuobjdump
#   .oracles/lib/     libnvrtc.so, libnvrtc-builtins.so   (tools/corpus.py: CUDA C++ to PTX)
#   .oracles/include/ CUDA headers for NVRTC (cuda_fp16.h, mma.h, ...)
#   .oracles/venv/    the Python environment the packages live in
#
# The tools are for tests only: nothing of them is shipped, vendored or needed to use Oriole.
# Versions are pinned, because recorded answers in the repository name them.
set -euo pipefail

packages=(
    nvidia-cuda-nvcc==13.0.88       # ptxas
    nvidia-cuda-nvdisasm==13.2.51
    nvidia-cuda-cuobjdump==13.2.51
    nvidia-cuda-nvrtc==13.0.88
    nvidia-cuda-runtime==13.0.88    # headers
    nvidia-cuda-crt==13.0.88        # headers behind mma.h
)

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
home=$root/.oracles
stamp=$home/versions

fail() { echo "oracles.sh: $*" >&2; exit 1; }

usage() { sed -n '4,5s/^# *//p' "${BASH_SOURCE[0]}"; }

current() {
    [[ -f $stamp && $(<"$stamp") == "$(printf '%s\n' "${packages[@]}")" ]] || return 1
    local file
    for file in bin/ptxas bin/nvdisasm bin/cuobjdump lib/libnvrtc.so include/cuda_fp16.h; do
        [[ -e $home/$file ]] || return 1
    done
}

# link NAME FILE...: the packages put a version in library names, so FILE may come from a pattern; the first counts.
link() {
    [[ -e $2 ]] || fail "the packages hold no file for $1 (looked for $2)"
    ln -sfn "$2" "$home/$1"
}

install() {
    local python=${PYTHON:-python3} log=$home/pip.log found
    command -v "$python" >/dev/null || fail "no $python; install Python 3 or set PYTHON"
    mkdir -p "$home/bin" "$home/lib"
    rm -f "$stamp"
    echo '*' >"$home/.gitignore"
    if [[ ! -x $home/venv/bin/python ]]; then
        rm -rf "$home/venv"
        "$python" -m venv "$home/venv" >"$log" 2>&1 || fail "cannot make a virtual environment; see $log"
    fi
    # --no-deps: nvcc would bring the newest runtime, headers and NVVM; ptxas needs only itself.
    "$home/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "${packages[@]}" \
        >"$log" 2>&1 || { tail -n 5 "$log" >&2; fail "pip could not install the pinned packages; see $log"; }

    found=$(echo "$home"/venv/lib/python3*/site-packages/nvidia/cu13)
    [[ -d $found ]] || fail "packages installed, but not where expected ($found)"
    # The links are relative, so that the project folder may be moved.
    found=../${found#"$home"/}
    (
        cd "$home/bin"
        for tool in ptxas nvdisasm cuobjdump; do link "bin/$tool" "$found/bin/$tool"; done
        link lib/libnvrtc.so "$found"/lib/libnvrtc.so.*
        link lib/libnvrtc-builtins.so "$found"/lib/libnvrtc-builtins.so.*
    )
    ln -sfn "${found#../}/include" "$home/include"
    "$home/bin/ptxas" --version >/dev/null 2>&1 || fail "ptxas is installed but does not run on this machine"
    printf '%s\n' "${packages[@]}" >"$stamp"
}

case ${1:-} in
    "") current || install; echo "$home/bin" ;;
    --path) current || exit 1; echo "$home/bin" ;;
    -h | --help) usage ;;
    *) usage >&2; exit 2 ;;
esac
