#!/usr/bin/env python3
"""Matrix products and attention in Triton, in all element types of Hopper's tensor cores. Input of `compare.py`."""

import torch
import triton
import triton.language as tl


@triton.jit
def product(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SUM: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    left = a + rows[:, None] * k + inner[None, :]
    right = b + inner[:, None] * n + columns[None, :]
    total = tl.zeros((BM, BN), SUM)
    for _ in range(0, k, BK):
        total = tl.dot(tl.load(left), tl.load(right), total, out_dtype=SUM)
        left += BK
        right += BK * n
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty))


@triton.jit
def product_by_descriptors(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    left = tl.make_tensor_descriptor(a, [m, k], [k, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [n, k], [k, 1], [BN, BK])
    out = tl.make_tensor_descriptor(c, [m, n], [n, 1], [BM, BN])
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(0, k, BK):
        total = tl.dot(left.load([row, step]), right.load([column, step]).T, total)
    out.store([row, column], total.to(c.dtype.element_ty))


@triton.jit
def attention(q, k, v, out, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    head = tl.program_id(1) * length * D
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    depth = tl.arange(0, D)
    keys = tl.arange(0, BN)
    query = tl.load(q + head + rows[:, None] * D + depth[None, :])
    largest = tl.full((BM,), -float("inf"), tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for start in range(0, length, BN):
        key = tl.load(k + head + (start + keys)[None, :] * D + depth[:, None])
        scores = tl.dot(query, key) * scale
        next_largest = tl.maximum(largest, tl.max(scores, 1))
        scores = tl.exp2(scores - next_largest[:, None])
        correction = tl.exp2(largest - next_largest)
        weight = weight * correction + tl.sum(scores, 1)
        value = tl.load(v + head + (start + keys)[:, None] * D + depth[None, :])
        total = tl.dot(scores.to(value.dtype), value, total * correction[:, None])
        largest = next_largest
    tl.store(out + head + rows[:, None] * D + depth[None, :], (total / weight[:, None]).to(out.dtype.element_ty))


def matrix(rows, columns, dtype):
    if dtype == torch.int8:
        return torch.randint(-128, 127, (rows, columns), device="cuda", dtype=dtype)
    return torch.randn(rows, columns, device="cuda").to(dtype)


def main():
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device="cuda", dtype=torch.int8))
    size = 2048
    half = [torch.float16, torch.bfloat16]
    for dtype in half + [torch.float32, torch.float8_e4m3fn, torch.float8_e5m2, torch.int8, torch.float64]:
        sums = {torch.int8: torch.int32, torch.float64: torch.float64}.get(dtype, torch.float32)
        out = torch.empty(size, size, device="cuda", dtype=dtype if dtype in half else sums)
        a, b = matrix(size, size, dtype), matrix(size, size, dtype)
        wide = dtype in (torch.float32, torch.float64)
        for warps, tile in ((1, 32), (2, 64), (4, 64), (4, 128), (8, 128)):
            tile = min(tile, 64) if dtype == torch.float64 else tile
            depth = 16 if dtype == torch.float64 else 32 if wide else 64
            grid = (size // tile, size // tile)
            total = {torch.int32: tl.int32, torch.float64: tl.float64}.get(sums, tl.float32)
            product[grid](a, b, out, size, size, size, tile, tile, depth, total, num_warps=warps, num_stages=3)
    for dtype in half + [torch.float8_e4m3fn]:
        out = torch.empty(size, size, device="cuda", dtype=dtype if dtype in half else torch.float32)
        a, b = matrix(size, size, dtype), matrix(size, size, dtype)
        for warps in (4, 8):
            grid = (size // 128, size // 128)
            product_by_descriptors[grid](a, b, out, size, size, size, 128, 128, 64, num_warps=warps, num_stages=3)
    heads, length = 16, 2048
    for dtype in half:
        for depth in (64, 128):
            q, k, v = (torch.randn(heads, length, depth, device="cuda", dtype=dtype) for _ in range(3))
            for warps in (4, 8):
                for block in (64, 128):
                    attention[(length // 128, heads)](q, k, v, torch.empty_like(q), length, 1.44 / depth**0.5, 128, block, depth, num_warps=warps, num_stages=2)


if __name__ == "__main__":
    main()
