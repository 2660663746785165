// kernel-test 1
// about: the permutation of SHA-3 on 25 words of 64 bits for each thread
// kernel: keccak_rounds
// grid: 256 1 1
// block: 128 1 1
// param x: u64[819200] = random:190
// param y: u64[819200] = zero
// expect y: exact = ?*819200

// oriole: arch=compute_80
typedef unsigned long long Word;

__constant__ Word round_constants[24] = {0x0000000000000001ull, 0x0000000000008082ull, 0x800000000000808aull, 0x8000000080008000ull,
    0x000000000000808bull, 0x0000000080000001ull, 0x8000000080008081ull, 0x8000000000008009ull, 0x000000000000008aull, 0x0000000000000088ull,
    0x0000000080008009ull, 0x000000008000000aull, 0x000000008000808bull, 0x800000000000008bull, 0x8000000000008089ull, 0x8000000000008003ull,
    0x8000000000008002ull, 0x8000000000000080ull, 0x000000000000800aull, 0x800000008000000aull, 0x8000000080008081ull, 0x8000000000008080ull,
    0x0000000080000001ull, 0x8000000080008008ull};

__device__ Word rotate(Word v, int by) { return by ? v << by | v >> (64 - by) : v; }

extern "C" __global__ void keccak_rounds(const Word *x, Word *y)
{
    const int shift[25] = {0, 1, 62, 28, 27, 36, 44, 6, 55, 20, 3, 10, 43, 25, 39, 41, 45, 15, 21, 8, 18, 2, 61, 56, 14};
    unsigned at = blockIdx.x * 128 + threadIdx.x, n = 32768;
    Word s[25], t[25];
#pragma unroll
    for (int i = 0; i < 25; i++)
        s[i] = x[i * n + at];
#pragma unroll 1
    for (int round = 0; round < 24; round++) {
        Word c[5];
#pragma unroll
        for (int i = 0; i < 5; i++)
            c[i] = s[i] ^ s[i + 5] ^ s[i + 10] ^ s[i + 15] ^ s[i + 20];
#pragma unroll
        for (int i = 0; i < 25; i++) {
            int column = i % 5, row = i / 5;
            t[row % 5 + (2 * column + 3 * row) % 5 * 5] = rotate(s[i] ^ c[(column + 4) % 5] ^ rotate(c[(column + 1) % 5], 1), shift[i]);
        }
#pragma unroll
        for (int i = 0; i < 25; i++)
            s[i] = t[i] ^ (~t[i / 5 * 5 + (i % 5 + 1) % 5] & t[i / 5 * 5 + (i % 5 + 2) % 5]);
        s[0] ^= round_constants[round];
    }
#pragma unroll
    for (int i = 0; i < 25; i++)
        y[i * n + at] = s[i];
}
