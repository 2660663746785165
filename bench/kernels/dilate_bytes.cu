// kernel-test 1
// about: the largest of 5 by 5 bytes, with operations on four bytes at once
// kernel: dilate_bytes
// grid: 16 256 1
// block: 32 8 1
// param image: u32[1048576] = random:178
// param out: u32[1048576] = zero
// expect out: exact = ?*1048576

// oriole: arch=compute_80
extern "C" __global__ void dilate_bytes(const unsigned *image, unsigned *out)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    unsigned most = 0;
    for (int i = -2; i <= 2; i++) {
        const unsigned *row = image + min(max(y + i, 0), 2047) * 512;
        unsigned left = x ? row[x - 1] : 0, middle = row[x], right = x < 511 ? row[x + 1] : 0;
        unsigned a = __vmaxu4(__byte_perm(left, middle, 0x5432), __byte_perm(left, middle, 0x6543));
        unsigned b = __vmaxu4(__byte_perm(middle, right, 0x4321), __byte_perm(middle, right, 0x5432));
        most = __vmaxu4(most, __vmaxu4(middle, __vmaxu4(a, b)));
    }
    out[y * 512 + x] = most;
}
