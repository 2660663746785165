#!/usr/bin/env python3
"""Judges the floating-point and integer instructions of a cubin made from ieee.ptx, on a GPU.

    check.py CUBIN [--cases N] [--only TEXT] [--no-exhaustive] [--skip-missing]
    check.py --self-test

Every kernel of ieee.ptx runs on N generated operands (every pair of exponents, quotients and roots next to rounding
boundaries, cancelling sums, subnormals, random bits; the same for every run), or on all operands where there is one of at
most 32 bits. checker.cu, compiled with NVRTC, works out the exact result of each by integer arithmetic and compares.
Before that, the checker itself is compared with Python's rational numbers (exact.py) on a sample; --self-test does only that,
with the checker compiled for the CPU. Needs cupy, except for --self-test, which needs a C++ compiler.
The exit status is 0 if everything is right, 1 if not, 2 if it could not run.
"""

import argparse
import ctypes
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy

import exact
from instructions import BYTES, INSTRUCTIONS

HERE = pathlib.Path(__file__).parent
CHUNK = 1 << 26
SEED = 0x0516
EXACTLY, ANY_NAN, CANONICAL_NAN, MAYBE_FLUSHED = 0, 1, 2, 5
u64 = numpy.uint64


class Host:
    """checker.cu compiled for the CPU."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        library = pathlib.Path(self.folder.name) / "checker.so"
        command = ["c++", "-O1", "-x", "c++", "-std=c++17", "-shared", "-fPIC", str(HERE / "checker.cu"), "-o", str(library)]
        subprocess.run(command, check=True)
        self.library = ctypes.CDLL(str(library))

    def sample(self, instruction, exhaustive, first, count):
        a, b, c = (numpy.zeros(count, u64) for _ in range(3))
        arrays = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)]
        self.library.make_operands(*instruction.codes, int(exhaustive), ctypes.c_uint64(SEED), ctypes.c_uint64(first),
                                   ctypes.c_uint64(count), *arrays)
        return a, b, c

    def tell(self, instruction, a, b, c):
        bits, verdict = numpy.zeros(len(a), u64), numpy.zeros(len(a), numpy.int32)
        arrays = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, c, bits, verdict)]
        self.library.tell(*instruction.codes, ctypes.c_uint64(len(a)), *arrays)
        return bits, verdict


class Device:
    """checker.cu on the GPU, beside the cubin under test."""

    def __init__(self, cubin):
        import cupy

        self.cupy = cupy
        self.checker = cupy.RawModule(code=(HERE / "checker.cu").read_text(), options=("--std=c++17", "--device-int128", "-ftz=false"))
        self.tested = cupy.RawModule(path=str(cubin)) if cubin else None
        self.buffers = [cupy.empty(CHUNK * 8, cupy.uint8) for _ in range(4)]
        self.grid, self.block = (132 * 16,), (256,)

    def make(self, instruction, exhaustive, first, count):
        codes = [numpy.int32(x) for x in (*instruction.codes, instruction.operands, int(exhaustive))]
        self.checker.get_function("make_operands")(
            self.grid, self.block, (*codes, u64(SEED), u64(first), u64(count), *self.buffers[:3]))

    def sample(self, instruction, exhaustive, first, count):
        self.make(instruction, exhaustive, first, count)
        size = BYTES[instruction.source]
        width = f"u{size}"
        arrays = [self.cupy.asnumpy(x[: count * size]).view(width).astype(u64) for x in self.buffers[: instruction.operands]]
        return (arrays + [numpy.zeros(count, u64)] * 2)[:3]

    def tell(self, instruction, a, b, c):
        cupy = self.cupy
        bits, verdict = cupy.zeros(len(a), u64), cupy.zeros(len(a), cupy.int32)
        codes = [numpy.int32(x) for x in instruction.codes]
        arguments = (*codes, u64(len(a)), *(cupy.asarray(x) for x in (a, b, c)), bits, verdict)
        self.checker.get_function("tell")(self.grid, self.block, arguments)
        return cupy.asnumpy(bits), cupy.asnumpy(verdict)

    def has(self, instruction):
        try:
            self.tested.get_function(instruction.kernel)
        except self.cupy.cuda.driver.CUDADriverError:
            return False
        return True

    def judge(self, instruction, exhaustive, cases):
        """Runs the kernel; returns the number of wrong results and up to three examples."""
        kernel = self.tested.get_function(instruction.kernel)
        compare = self.checker.get_function("compare")
        wrong = self.cupy.zeros(16, u64)
        codes = [numpy.int32(x) for x in (*instruction.codes, instruction.operands)]
        a, b, c, out = self.buffers
        for first in range(0, cases, CHUNK):
            count = min(CHUNK, cases - first)
            self.make(instruction, exhaustive, first, count)
            # What the last kernel left must not pass for a result.
            out[: count * BYTES[instruction.type]].fill(0x5A)
            kernel(self.grid, self.block, (out, a, b, c, u64(count)))
            compare(self.grid, self.block, (*codes, u64(count), a, b, c, out, wrong))
        counts = self.cupy.asnumpy(wrong)
        examples = [counts[1 + 5 * k : 6 + 5 * k] for k in range(min(3, int(counts[0])))]
        return int(counts[0]), examples


def validate(checker, samples):
    """Compares the checker with exact.py; returns the number of comparisons and of differences."""
    compared = differences = 0
    for instruction in INSTRUCTIONS:
        whole = instruction.exhaustive and BYTES[instruction.source] <= 2
        # Both the directed operands at the start and random ones behind them.
        parts = [(0, samples)] if not whole else [(x, samples) for x in range(0, 1 << 8 * BYTES[instruction.source], 4099)]
        if not whole:
            parts += [(1 << 25, samples), ((1 << 25) + 1, samples)]
        for first, count in parts[:8]:
            if whole:
                count = min(count, (1 << 8 * BYTES[instruction.source]) - first)
            operands = checker.sample(instruction, whole, first, count)
            bits, verdict = checker.tell(instruction, *operands)
            for row in zip(*operands, bits, verdict):
                a, b, c, told, kind = (int(x) for x in row)
                if kind not in (EXACTLY, ANY_NAN, CANONICAL_NAN, MAYBE_FLUSHED):
                    continue
                want = exact.expected(instruction, a, b, c)
                if want is None:
                    continue
                compared += 1
                if (want == exact.NAN) != (kind in (ANY_NAN, CANONICAL_NAN)) or want != exact.NAN and want != told:
                    differences += 1
                    if differences < 20:
                        print(f"checker differs: {instruction.head} {a:x} {b:x} {c:x}: {told:x}, exactly {want if want == exact.NAN else hex(want)}")
    return compared, differences


def judge_all(device, options):
    failures = 0
    total = 0
    started = time.time()
    for instruction in INSTRUCTIONS:
        if options.only not in instruction.head:
            continue
        size = BYTES[instruction.source]
        whole = instruction.exhaustive and (size <= 2 or not options.no_exhaustive)
        cases = 1 << 8 * size if whole else options.cases
        if options.skip_missing and not device.has(instruction):
            continue
        begin = time.time()
        try:
            wrong, examples = device.judge(instruction, whole, cases)
        except Exception as problem:  # a kernel that is missing or that faults
            print(f"{instruction.head:28} FAILED: {problem}", flush=True)
            failures += 1
            if "illegal" in str(problem) or "launch" in str(problem):
                break  # the context is gone
            continue
        total += cases
        verdict = "right" if not wrong else f"{wrong} WRONG"
        print(f"{instruction.head:28} {cases:>11} cases{' (all)' if whole else '':6} {time.time() - begin:6.2f} s  {verdict}", flush=True)
        for a, b, c, result, want in examples:
            print(f"    {int(a):x} {int(b):x} {int(c):x}: {int(result):x}, expected {int(want):x}")
        failures += bool(wrong)
    print(f"{total} cases in {time.time() - started:.1f} s; {failures} instructions wrong")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cubin", nargs="?")
    parser.add_argument("--cases", type=int, default=1 << 27, help="operands per instruction (134217728)")
    parser.add_argument("--only", default="", help="only instructions that contain this text")
    parser.add_argument("--no-exhaustive", action="store_true", help="a sample also for single 32-bit operands")
    parser.add_argument("--skip-missing", action="store_true", help="leave out kernels the cubin does not have")
    parser.add_argument("--self-test", action="store_true", help="compare the checker, on the CPU, with rational numbers")
    options = parser.parse_args()
    if options.self_test:
        compared, differences = validate(Host(), 300)
        print(f"checker against rational numbers: {compared} compared, {differences} differ")
        return 1 if differences else 0
    if not options.cubin:
        parser.error("a cubin is needed")
    try:
        device = Device(options.cubin)
    except ImportError:
        print("cupy is needed to run kernels", file=sys.stderr)
        return 2
    compared, differences = validate(device, 40)
    print(f"checker against rational numbers: {compared} compared, {differences} differ", flush=True)
    if differences:
        return 1
    return 1 if judge_all(device, options) else 0


if __name__ == "__main__":
    sys.exit(main())
