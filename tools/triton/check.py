#!/usr/bin/env python3
"""Runs Triton kernels compiled by Oriole on a GPU and compares them with PyTorch.

Needs Triton, PyTorch and an NVIDIA GPU. Call with the folder that holds Oriole's `ptxas`:

    TRITON_PTXAS_PATH=target/release/ptxas python3 tools/triton/check.py

Each kernel runs in a process of its own, so that one that faults or hangs does not take the others with it.
"""

import argparse
import os
import subprocess
import sys
import tempfile

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def run_one(name):
    import torch
    import triton
    import triton.language as tl

    globals().update(torch=torch, triton=triton, tl=tl)
    torch.manual_seed(1)
    KERNELS()
    CASES[name]()
    torch.cuda.synchronize()


def KERNELS():
    """Defines the kernels once Triton is imported."""
    global vector_add_kernel, softmax_kernel, layer_norm_kernel, dropout_kernel, sum_kernel, scan_kernel, sort_kernel
    global histogram_kernel, gelu_kernel, argmax_kernel, transpose_kernel, atomic_kernel, gather_kernel, int_kernel

    @triton.jit
    def vector_add_kernel(x, y, out, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)

    @triton.jit
    def softmax_kernel(x, out, columns, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        offsets = tl.arange(0, BLOCK)
        mask = offsets < columns
        values = tl.load(x + row * columns + offsets, mask=mask, other=-float("inf"))
        values = tl.exp(values - tl.max(values, axis=0))
        tl.store(out + row * columns + offsets, values / tl.sum(values, axis=0), mask=mask)

    @triton.jit
    def layer_norm_kernel(x, w, b, out, columns, eps, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        offsets = tl.arange(0, BLOCK)
        mask = offsets < columns
        values = tl.load(x + row * columns + offsets, mask=mask, other=0.0).to(tl.float32)
        mean = tl.sum(values, axis=0) / columns
        centred = tl.where(mask, values - mean, 0.0)
        variance = tl.sum(centred * centred, axis=0) / columns
        scale = tl.load(w + offsets, mask=mask)
        shift = tl.load(b + offsets, mask=mask)
        tl.store(out + row * columns + offsets, centred / tl.sqrt(variance + eps) * scale + shift, mask=mask)

    @triton.jit
    def dropout_kernel(x, out, n, p, seed, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        values = tl.load(x + offsets, mask=mask)
        keep = tl.rand(seed, offsets) > p
        tl.store(out + offsets, tl.where(keep, values / (1 - p), 0.0), mask=mask)

    @triton.jit
    def sum_kernel(x, out, columns, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        for start in range(0, columns, BLOCK):
            offsets = start + tl.arange(0, BLOCK)
            total += tl.load(x + row * columns + offsets, mask=offsets < columns, other=0.0)
        tl.store(out + row, tl.sum(total, axis=0))

    @triton.jit
    def scan_kernel(x, out, columns, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        offsets = tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + offsets, mask=offsets < columns, other=0)
        tl.store(out + row * columns + offsets, tl.cumsum(values, axis=0), mask=offsets < columns)

    @triton.jit
    def sort_kernel(x, out, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        offsets = row * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + offsets, tl.sort(tl.load(x + offsets)))

    @triton.jit
    def histogram_kernel(x, out, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        counts = tl.histogram(tl.load(x + offsets), BINS)
        tl.atomic_add(out + tl.arange(0, BINS), counts)

    @triton.jit
    def gelu_kernel(x, out, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        values = tl.load(x + offsets, mask=mask).to(tl.float32)
        result = 0.5 * values * (1 + tl.erf(values * 0.7071067811865476))
        tl.store(out + offsets, result.to(tl.float16), mask=mask)

    @triton.jit
    def argmax_kernel(x, out, columns, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        offsets = tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + offsets, mask=offsets < columns, other=-float("inf"))
        tl.store(out + row, tl.argmax(values, axis=0))

    @triton.jit
    def transpose_kernel(x, out, rows, columns, BLOCK: tl.constexpr):
        r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        tile = tl.load(x + r[:, None] * columns + c[None, :], mask=(r[:, None] < rows) & (c[None, :] < columns))
        tl.store(out + c[:, None] * rows + r[None, :], tl.trans(tile), mask=(c[:, None] < columns) & (r[None, :] < rows))

    @triton.jit
    def atomic_kernel(x, total, largest, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        values = tl.load(x + offsets, mask=offsets < n, other=0)
        tl.atomic_add(total, tl.sum(values, axis=0))
        tl.atomic_max(largest, tl.max(values, axis=0))

    @triton.jit
    def gather_kernel(x, index, out, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        places = tl.load(index + offsets, mask=mask, other=0)
        tl.store(out + offsets, tl.load(x + places, mask=mask), mask=mask)

    @triton.jit
    def int_kernel(x, y, out, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        a = tl.load(x + offsets, mask=mask, other=1)
        b = tl.load(y + offsets, mask=mask, other=1)
        tl.store(out + offsets, (a // b) * 3 + (a % b) + (a >> 3) - (b << 2), mask=mask)


@case
def vector_add():
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        n = 98_432
        x, y = torch.rand(n, device="cuda").to(dtype), torch.rand(n, device="cuda").to(dtype)
        out = torch.empty_like(x)
        vector_add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
        assert torch.equal(out, x + y), dtype


@case
def softmax():
    x = torch.randn(1823, 781, device="cuda")
    out = torch.empty_like(x)
    softmax_kernel[(1823,)](x, out, 781, BLOCK=1024)
    torch.testing.assert_close(out, torch.softmax(x, dim=1))


@case
def layer_norm():
    x = torch.randn(1151, 1000, device="cuda")
    w, b = torch.rand(1000, device="cuda"), torch.rand(1000, device="cuda")
    out = torch.empty_like(x)
    layer_norm_kernel[(1151,)](x, w, b, out, 1000, 1e-5, BLOCK=1024)
    torch.testing.assert_close(out, torch.nn.functional.layer_norm(x, (1000,), w, b, 1e-5), rtol=1e-4, atol=1e-4)


@case
def dropout():
    n = 100_000
    x = torch.randn(n, device="cuda")
    out = torch.empty_like(x)
    dropout_kernel[(triton.cdiv(n, 1024),)](x, out, n, 0.25, 123, BLOCK=1024)
    kept = out != 0
    torch.testing.assert_close(out[kept], (x / 0.75)[kept])
    assert abs(kept.float().mean().item() - 0.75) < 0.01
    again = torch.empty_like(x)
    dropout_kernel[(triton.cdiv(n, 1024),)](x, again, n, 0.25, 123, BLOCK=1024)
    assert torch.equal(out, again)


@case
def reduction():
    x = torch.randn(512, 5000, device="cuda")
    out = torch.empty(512, device="cuda")
    sum_kernel[(512,)](x, out, 5000, BLOCK=1024)
    torch.testing.assert_close(out, x.sum(1), rtol=1e-4, atol=1e-3)


@case
def scan():
    x = torch.randint(-100, 100, (300, 700), device="cuda", dtype=torch.int32)
    out = torch.empty_like(x)
    scan_kernel[(300,)](x, out, 700, BLOCK=1024)
    assert torch.equal(out, torch.cumsum(x, 1).to(torch.int32))


@case
def sort():
    x = torch.randn(64, 512, device="cuda")
    out = torch.empty_like(x)
    sort_kernel[(64,)](x, out, BLOCK=512)
    assert torch.equal(out, torch.sort(x, dim=1).values)


@case
def histogram():
    x = torch.randint(0, 64, (64 * 1024,), device="cuda", dtype=torch.int32)
    out = torch.zeros(64, device="cuda", dtype=torch.int32)
    histogram_kernel[(64,)](x, out, x.numel(), BINS=64, BLOCK=1024)
    assert torch.equal(out, torch.bincount(x, minlength=64).to(torch.int32))


@case
def gelu():
    n = 50_000
    x = torch.randn(n, device="cuda", dtype=torch.float16)
    out = torch.empty_like(x)
    gelu_kernel[(triton.cdiv(n, 512),)](x, out, n, BLOCK=512)
    torch.testing.assert_close(out, torch.nn.functional.gelu(x.float()).half(), rtol=2e-3, atol=2e-3)


@case
def argmax():
    x = torch.randn(700, 900, device="cuda")
    out = torch.empty(700, device="cuda", dtype=torch.int32)
    argmax_kernel[(700,)](x, out, 900, BLOCK=1024)
    assert torch.equal(out.long(), x.argmax(1))


@case
def transpose():
    x = torch.randn(333, 517, device="cuda")
    out = torch.empty(517, 333, device="cuda")
    transpose_kernel[(triton.cdiv(333, 64), triton.cdiv(517, 64))](x, out, 333, 517, BLOCK=64)
    assert torch.equal(out, x.t())


@case
def atomics():
    n = 100_000
    x = torch.randint(-1000, 1000, (n,), device="cuda", dtype=torch.int32)
    total = torch.zeros(1, device="cuda", dtype=torch.int32)
    largest = torch.full((1,), -5000, device="cuda", dtype=torch.int32)
    atomic_kernel[(triton.cdiv(n, 1024),)](x, total, largest, n, BLOCK=1024)
    assert total.item() == x.sum().item() and largest.item() == max(x.max().item(), 0)


@case
def gather():
    x = torch.randn(10_000, device="cuda", dtype=torch.float64)
    index = torch.randint(0, 10_000, (33_333,), device="cuda")
    out = torch.empty(33_333, device="cuda", dtype=torch.float64)
    gather_kernel[(triton.cdiv(33_333, 256),)](x, index, out, 33_333, BLOCK=256)
    assert torch.equal(out, x[index])


@case
def integers():
    for dtype in (torch.int32, torch.int64):
        x = torch.randint(-(2**31), 2**31 - 1, (40_000,), device="cuda", dtype=dtype)
        y = torch.randint(1, 5000, (40_000,), device="cuda", dtype=dtype)
        out = torch.empty_like(x)
        int_kernel[(triton.cdiv(40_000, 256),)](x, y, out, 40_000, BLOCK=256)
        quotient = torch.div(x, y, rounding_mode="trunc")
        expected = quotient * 3 + (x - quotient * y) + (x >> 3) - (y << 2)
        assert torch.equal(out, expected), dtype


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", help="run this case in this process")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for each case")
    arguments = parser.parse_args()
    if arguments.one:
        return run_one(arguments.one)
    if "TRITON_PTXAS_PATH" not in os.environ:
        print("TRITON_PTXAS_PATH is not set: Triton's own ptxas compiles")
    failed = []
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "TRITON_CACHE_DIR": cache, "TRITON_ALWAYS_COMPILE": "1"}
        for name in CASES:
            try:
                done = subprocess.run([sys.executable, __file__, "--one", name], env=environment, capture_output=True, text=True, timeout=arguments.timeout)
                outcome = None if done.returncode == 0 else (done.stderr.strip() or f"exit code {done.returncode}")
            except subprocess.TimeoutExpired:
                outcome = f"no end after {arguments.timeout} s"
            print(f"{name:12} {'ok' if outcome is None else 'FAILED'}", flush=True)
            if outcome is not None:
                failed.append(name)
                print("    " + "\n    ".join(outcome.splitlines()[-12:]), flush=True)
    print(f"{len(CASES) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
