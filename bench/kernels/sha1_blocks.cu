// kernel-test 1
// about: SHA-1 of one block of words for each thread, in loops of rounds
// kernel: sha1_blocks
// grid: 512 1 1
// block: 128 1 1
// param x: u32[1048576] = random:187
// param y: u32[327680] = zero
// expect y: exact = ?*327680

// oriole: arch=compute_80
__device__ unsigned turn(unsigned v, int by) { return __funnelshift_l(v, v, by); }

extern "C" __global__ void sha1_blocks(const unsigned *x, unsigned *y)
{
    unsigned at = blockIdx.x * 128 + threadIdx.x, n = 65536, w[16];
#pragma unroll
    for (int i = 0; i < 16; i++)
        w[i] = x[i * n + at];
    unsigned a = 0x67452301, b = 0xefcdab89, c = 0x98badcfe, d = 0x10325476, e = 0xc3d2e1f0;
#pragma unroll 1
    for (int start = 0; start < 80; start += 16)
#pragma unroll
        for (int i = 0; i < 16; i++) {
            if (start)
                w[i] = turn(w[(i + 13) & 15] ^ w[(i + 8) & 15] ^ w[(i + 2) & 15] ^ w[i], 1);
            int round = start + i;
            unsigned f, k;
            if (round < 20)
                f = (b & c) | (~b & d), k = 0x5a827999;
            else if (round < 40)
                f = b ^ c ^ d, k = 0x6ed9eba1;
            else if (round < 60)
                f = (b & c) | (b & d) | (c & d), k = 0x8f1bbcdc;
            else
                f = b ^ c ^ d, k = 0xca62c1d6;
            unsigned next = turn(a, 5) + f + e + k + w[i];
            e = d;
            d = c;
            c = turn(b, 30);
            b = a;
            a = next;
        }
    y[at] = a + 0x67452301;
    y[n + at] = b + 0xefcdab89;
    y[2 * n + at] = c + 0x98badcfe;
    y[3 * n + at] = d + 0x10325476;
    y[4 * n + at] = e + 0xc3d2e1f0;
}
