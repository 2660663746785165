"""Runs linked cubins and compares with results worked out here. Usage: python3 check.py *.linked.cubin"""
import struct, sys
import cupy, numpy as np

M = 0xFFFFFFFF
def noise(x):
    r = [0] * 31
    r[0] = x; r[1] = (x + 1) & M
    for k in (2, 3, 4, 5):
        r[k] = r[k-1] * r[k-2] & M
    for k in range(6, 11):
        r[k] = (r[k-1] + r[k-2]) & M
    r[11] = r[10] ^ r[9]; r[12] = r[11] ^ r[8]; r[13] = r[12] ^ r[7]; r[14] = r[13] ^ r[6]; r[15] = r[14] ^ r[5]
    for k, j in ((16, 4), (17, 3), (18, 2), (19, 1), (20, 0)):
        r[k] = (r[k-1] + r[j]) & M
    for k, j in ((21, 19), (22, 18), (23, 17), (24, 16)):
        r[k] = r[k-1] * r[j] & M
    t = r[0] * r[24] + r[23]
    for a, b in ((1, 22), (2, 21), (3, 20), (4, 19), (5, 18), (6, 17), (7, 16), (8, 15), (9, 14), (10, 13), (11, 12)):
        t = (t * r[a] + r[b]) & M
    return t
def triple(x): return (3 * x + 1) & M
def fold(values, by, start=0):
    t = start
    for v in values: t = (t * by + v) & M
    return t
def many(p0, p1, p4, p7, p11, p12, p14):
    return fold([p1, 3, 4, p4, 6, 7, p7, 9, 10, 11, p11 & M, p11 >> 32, p12, 14, p14 & M, p14 >> 32], 5, p0)
def even(n): return 1 if n == 0 else (odd(n - 1) + 2) & M
def odd(n): return 0 if n == 0 else (even(n - 1) * 3 + n) & M
def s8(v): return (v & 0xFF) - 256 if v & 0x80 else v & 0xFF
def stacky(n, x):
    rows = [((x + k) & M, k, many(k, x, k, x, x, x, x), n) for k in range(n)]
    return fold([v for row in rows for v in row], 3)

def expected(x, i):
    wide = x * 0x100000005 & 0xFFFFFFFFFFFFFFFF
    lo, hi = wide & M, wide >> 32
    out = []
    out.append((((x * 3 + lo) & M ^ hi) + i * 7) & M)
    head = ((x & 0xFF) + s8(7) + (i & 0xFFFF)) * 5 + x & M
    middle = ((x << 32 | i) + 99) & M
    out.append(fold([middle, hi, lo], 31, head))
    out.append(fold([(x + k * k) & M for k in (0, 1, 2, 3, 12, 13, 14, 15)], 3))
    out.append(many(x, i, x, i, wide, x, wide))
    out.append((triple(triple(x)) - x) & M)
    out.append(even(i & 15))
    out.append(fold([x & 255, i & 255, s8(200), x & 255, 5, i & 255, 255], 3))
    arr = [x, 11, i, 13, x, 15, 16, x]
    out.append((arr[i & 7] * 9 + 11) & M)
    out.append(stacky((i & 3) + 1, x))
    bits = struct.unpack("<Q", struct.pack("<d", float(i) * float(i) + float(x) * 0.5))[0]
    out.append((bits ^ bits >> 32) & M)
    t = 0
    for _ in range((i & 3) + 1): t = noise(t)
    live = [x+1, x*3, x ^ 0x55, x << 2, i+9, i*11, x+i, x-i, x ^ i, ~x, x+20, x+21, x+22, x+23, x+24] + [x*k for k in range(25, 40)]
    out.append(fold([v & M for v in live], 3, t))
    out.append(noise(x) if i & 1 else triple(x))
    out.append(noise(x) if i > 20 else 77)
    a = struct.unpack("<Q", struct.pack("<d", float(x)))[0]
    out.append(fold([lo, hi, a & M, a >> 32, 1000, 0], 3))
    return out

NAMES = ["mix3", "struct", "big result", "stack parameters", "callback", "mutual recursion", "bytes", "address of parameter",
         "alloca and calls", "doubles", "live over calls", "table", "guard", "variable arguments"]
count = 64
rng = np.random.default_rng(1)
given = rng.integers(0, 2**32, count, dtype=np.uint64).astype(np.uint32)
given[:6] = [0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
want = np.array([expected(int(x), i) for i, x in enumerate(given)], dtype=np.uint32)
failed = 0
for path in sys.argv[1:]:
    try:
        kernel = cupy.RawModule(path=path).get_function("link_test")
        source, out = cupy.asarray(given), cupy.zeros((count, 20), cupy.uint32)
        kernel((1,), (count,), (out, source))
        got = cupy.asnumpy(out)[:, :len(NAMES)]
        wrong = [f"{name} ({(got[:, k] != want[:, k]).sum()} of {count})" for k, name in enumerate(NAMES) if (got[:, k] != want[:, k]).any()]
    except Exception as error:
        wrong = [str(error)]
    failed += bool(wrong)
    print(path, "FAIL " + "; ".join(wrong) if wrong else "pass")
print(f"{len(sys.argv) - 1 - failed} of {len(sys.argv) - 1} pass")
sys.exit(failed > 0)
