// kernel-test 1
// about: BLAKE2s of one block for each thread, with the permutation of words in constant memory
// kernel: blake2s_blocks
// grid: 512 1 1
// block: 128 1 1
// param x: u32[1048576] = random:189
// param y: u32[524288] = zero
// expect y: exact = ?*524288

// oriole: arch=compute_80
__constant__ unsigned char order[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

__device__ unsigned turn(unsigned v, int by) { return __funnelshift_r(v, v, by); }

__device__ void mix(unsigned &a, unsigned &b, unsigned &c, unsigned &d, unsigned x, unsigned y)
{
    a += b + x; d = turn(d ^ a, 16);
    c += d; b = turn(b ^ c, 12);
    a += b + y; d = turn(d ^ a, 8);
    c += d; b = turn(b ^ c, 7);
}

extern "C" __global__ void blake2s_blocks(const unsigned *x, unsigned *y)
{
    __shared__ unsigned words[16][128];
    unsigned thread = threadIdx.x, at = blockIdx.x * 128 + thread, n = 65536;
    for (int i = 0; i < 16; i++)
        words[i][thread] = x[i * n + at];
    unsigned iv[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}, v[16];
#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = v[i + 8] = iv[i];
    v[0] ^= 0x01010020;
    v[12] ^= 64;
    v[14] = ~v[14];
#pragma unroll 1
    for (int round = 0; round < 10; round++) {
        const unsigned char *o = order[round];
#define WORD(i) words[o[i]][thread]
        mix(v[0], v[4], v[8], v[12], WORD(0), WORD(1));
        mix(v[1], v[5], v[9], v[13], WORD(2), WORD(3));
        mix(v[2], v[6], v[10], v[14], WORD(4), WORD(5));
        mix(v[3], v[7], v[11], v[15], WORD(6), WORD(7));
        mix(v[0], v[5], v[10], v[15], WORD(8), WORD(9));
        mix(v[1], v[6], v[11], v[12], WORD(10), WORD(11));
        mix(v[2], v[7], v[8], v[13], WORD(12), WORD(13));
        mix(v[3], v[4], v[9], v[14], WORD(14), WORD(15));
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        y[i * n + at] = (i ? iv[i] : iv[0] ^ 0x01010020) ^ v[i] ^ v[i + 8];
}
