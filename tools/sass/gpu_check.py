"""Runs cubins on a GPU and checks their results against NumPy.

    python3 gpu_check.py FOLDER...

Each folder holds examples.cubin files made from the same PTX in different ways (by ptxas, read and written back, disassembled
and assembled through text, edited). Needs CuPy and a GPU of the cubins' target. Prints a line for each kernel; exits with 1 if
any result is wrong or any cubin does not load.
"""

import hashlib
import sys
from pathlib import Path

import cupy
import numpy

RANDOM = numpy.random.default_rng(7)


def vector_add(kernel):
    a, b = RANDOM.random(4096, dtype=numpy.float32), RANDOM.random(4096, dtype=numpy.float32)
    out = cupy.zeros(4096, dtype=cupy.float32)
    kernel((16,), (256,), (cupy.asarray(a), cupy.asarray(b), out))
    return numpy.array_equal(out.get(), a + b)


def saxpy(kernel):
    x, y = RANDOM.random(1000, dtype=numpy.float32), RANDOM.random(1000, dtype=numpy.float32)
    out = cupy.asarray(y)
    kernel((4,), (256,), (numpy.float32(2.5), cupy.asarray(x), out, numpy.uint32(1000)))
    return numpy.allclose(out.get(), 2.5 * x + y, rtol=1e-6)


def block_sum(kernel):
    values = RANDOM.integers(0, 100, 8 * 256).astype(numpy.float32)
    out = cupy.zeros(8, dtype=cupy.float32)
    kernel((8,), (256,), (cupy.asarray(values), out))
    return numpy.array_equal(out.get(), values.reshape(8, 256).sum(axis=1))


def sort_network_32(kernel):
    values = RANDOM.integers(-(2**31), 2**31, (128, 32)).astype(numpy.int32)
    data = cupy.asarray(values)
    kernel((2,), (64,), (data,))
    return numpy.array_equal(data.get(), numpy.sort(values, axis=1))


def fft_16(kernel):
    values = (RANDOM.random((64, 16)) + 1j * RANDOM.random((64, 16))).astype(numpy.complex64)
    data = cupy.asarray(values)
    kernel((1,), (64,), (data,))
    return numpy.allclose(data.get(), numpy.fft.fft(values, axis=1), atol=1e-3)


def sha256_block(kernel, module):
    primes = [n for n in range(2, 312) if all(n % d for d in range(2, n))][:64]
    root = lambda p, k: int(numpy.floor((numpy.longdouble(p) ** (numpy.longdouble(1) / k) % 1) * 2**32)) & 0xFFFFFFFF
    constants = numpy.array([root(p, 3) for p in primes], dtype=numpy.uint32)
    start = numpy.array([root(p, 2) for p in primes[:8]], dtype=numpy.uint32)
    pointer = module.get_global("round_constants")
    cupy.ndarray((64,), dtype=cupy.uint32, memptr=pointer).set(constants)
    texts = [bytes(RANDOM.integers(0, 256, 40, dtype=numpy.uint8)) for _ in range(32)]
    blocks = b"".join(text + b"\x80" + bytes(15) + (8 * len(text)).to_bytes(8, "big") for text in texts)
    digest = cupy.asarray(numpy.tile(start, (32, 1)))
    kernel((1,), (32,), (cupy.asarray(numpy.frombuffer(blocks, dtype=numpy.uint32)), digest))
    expected = [numpy.frombuffer(hashlib.sha256(text).digest(), dtype=">u4") for text in texts]
    return numpy.array_equal(digest.get(), numpy.array(expected, dtype=numpy.uint32))


def softmax_rows(kernel):
    rows = RANDOM.standard_normal((16, 1000)).astype(numpy.float32)
    out = cupy.zeros((16, 1000), dtype=cupy.float32)
    kernel((16,), (256,), (cupy.asarray(rows), out, numpy.int32(1000)))
    powers = numpy.exp(rows - rows.max(axis=1, keepdims=True))
    return numpy.allclose(out.get(), powers / powers.sum(axis=1, keepdims=True), rtol=1e-4, atol=1e-7)


def matmul_shared(kernel):
    a, b = RANDOM.random((50, 70), dtype=numpy.float32), RANDOM.random((70, 40), dtype=numpy.float32)
    out = cupy.zeros((50, 40), dtype=cupy.float32)
    kernel((3, 4), (16, 16), (cupy.asarray(a), cupy.asarray(b), out, numpy.int32(50), numpy.int32(40), numpy.int32(70)))
    return numpy.allclose(out.get(), a @ b, rtol=1e-5)


def number_theory(kernel):
    a, b = (RANDOM.integers(1, 2**32, 256, dtype=numpy.uint32) for _ in range(2))
    gcd, power = cupy.zeros(256, dtype=cupy.uint32), cupy.zeros(256, dtype=cupy.uint32)
    kernel((1,), (256,), (cupy.asarray(a), cupy.asarray(b), gcd, power, numpy.uint32(1000003)))
    powers = [pow(int(x), int(y), 1000003) for x, y in zip(a, b)]
    return numpy.array_equal(gcd.get(), numpy.gcd(a, b)) and numpy.array_equal(power.get(), powers)


CHECKS = [vector_add, saxpy, block_sum, sort_network_32, fft_16, sha256_block, softmax_rows, matmul_shared, number_theory]


def main():
    failures = 0
    for folder in sys.argv[1:]:
        for path in sorted(Path(folder).glob("*.cubin")):
            try:
                module = cupy.RawModule(path=str(path))
            except Exception as error:
                print(f"{path}: does not load: {error}")
                failures += 1
                continue
            for check in CHECKS:
                try:
                    kernel = module.get_function(check.__name__)
                except Exception:
                    continue
                arguments = (kernel, module) if check is sha256_block else (kernel,)
                right = check(*arguments)
                failures += not right
                print(f"{path} {check.__name__}: {'right' if right else 'WRONG'}")
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
