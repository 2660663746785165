// kernel-test 1
// about: the Salsa20/8 core on blocks in place, as scrypt uses it
// kernel: salsa20_rounds
// grid: 512 1 1
// block: 128 1 1
// param x: u32[1048576] = random:186
// param y: u32[1048576] = zero
// expect y: exact = ?*1048576

// oriole: arch=compute_80
__device__ unsigned rotate(unsigned v, int by) { return __funnelshift_l(v, v, by); }

__device__ void quarter(unsigned &a, unsigned &b, unsigned &c, unsigned &d)
{
    b ^= rotate(a + d, 7);
    c ^= rotate(b + a, 9);
    d ^= rotate(c + b, 13);
    a ^= rotate(d + c, 18);
}

extern "C" __global__ void salsa20_rounds(const unsigned *x, unsigned *y)
{
    unsigned at = blockIdx.x * 128 + threadIdx.x, n = 65536, s[16], t[16];
#pragma unroll
    for (int i = 0; i < 16; i++)
        s[i] = x[i * n + at];
    for (int block = 0; block < 4; block++) {
#pragma unroll
        for (int i = 0; i < 16; i++)
            t[i] = s[i];
#pragma unroll 1
        for (int round = 0; round < 4; round++) {
            quarter(t[0], t[4], t[8], t[12]);
            quarter(t[5], t[9], t[13], t[1]);
            quarter(t[10], t[14], t[2], t[6]);
            quarter(t[15], t[3], t[7], t[11]);
            quarter(t[0], t[1], t[2], t[3]);
            quarter(t[5], t[6], t[7], t[4]);
            quarter(t[10], t[11], t[8], t[9]);
            quarter(t[15], t[12], t[13], t[14]);
        }
#pragma unroll
        for (int i = 0; i < 16; i++)
            s[i] += t[i];
    }
#pragma unroll
    for (int i = 0; i < 16; i++)
        y[i * n + at] = s[i];
}
