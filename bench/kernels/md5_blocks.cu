// kernel-test 1
// about: MD5 of one block of words for each thread, all rounds unrolled by four
// kernel: md5_blocks
// grid: 512 1 1
// block: 128 1 1
// param x: u32[1048576] = random:188
// param y: u32[262144] = zero
// expect y: exact = ?*262144

// oriole: arch=compute_80
__constant__ unsigned K[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501, 0x698098d8, 0x8b44f7af,
    0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821, 0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa,
    0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8, 0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8,
    0x676f02d9, 0x8d2a4c8a, 0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665, 0xf4292244, 0x432aff97,
    0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1, 0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1,
    0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};

__device__ unsigned turn(unsigned v, int by) { return __funnelshift_l(v, v, by); }

extern "C" __global__ void md5_blocks(const unsigned *x, uint4 *y)
{
    __shared__ unsigned words[16][128];
    unsigned thread = threadIdx.x, at = blockIdx.x * 128 + thread;
    for (int i = 0; i < 16; i++)
        words[i][thread] = x[i * 65536 + at];
    unsigned a = 0x67452301, b = 0xefcdab89, c = 0x98badcfe, d = 0x10325476;
#define STEP(f, a, b, c, d, i, k, s) a = b + turn(a + (f) + K[i] + words[(k) & 15][thread], s)
    for (int i = 0; i < 16; i += 4) {
        STEP((b & c) | (~b & d), a, b, c, d, i, i, 7);
        STEP((a & b) | (~a & c), d, a, b, c, i + 1, i + 1, 12);
        STEP((d & a) | (~d & b), c, d, a, b, i + 2, i + 2, 17);
        STEP((c & d) | (~c & a), b, c, d, a, i + 3, i + 3, 22);
    }
    for (int i = 16; i < 32; i += 4) {
        STEP((b & d) | (c & ~d), a, b, c, d, i, 5 * i + 1, 5);
        STEP((a & c) | (b & ~c), d, a, b, c, i + 1, 5 * i + 6, 9);
        STEP((d & b) | (a & ~b), c, d, a, b, i + 2, 5 * i + 11, 14);
        STEP((c & a) | (d & ~a), b, c, d, a, i + 3, 5 * i + 16, 20);
    }
    for (int i = 32; i < 48; i += 4) {
        STEP(b ^ c ^ d, a, b, c, d, i, 3 * i + 5, 4);
        STEP(a ^ b ^ c, d, a, b, c, i + 1, 3 * i + 8, 11);
        STEP(d ^ a ^ b, c, d, a, b, i + 2, 3 * i + 11, 16);
        STEP(c ^ d ^ a, b, c, d, a, i + 3, 3 * i + 14, 23);
    }
    for (int i = 48; i < 64; i += 4) {
        STEP(c ^ (b | ~d), a, b, c, d, i, 7 * i, 6);
        STEP(b ^ (a | ~c), d, a, b, c, i + 1, 7 * i + 7, 10);
        STEP(a ^ (d | ~b), c, d, a, b, i + 2, 7 * i + 14, 15);
        STEP(d ^ (c | ~a), b, c, d, a, i + 3, 7 * i + 21, 21);
    }
    y[at] = make_uint4(a + 0x67452301, b + 0xefcdab89, c + 0x98badcfe, d + 0x10325476);
}
