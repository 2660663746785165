// kernel-test 1
// about: rounds of SHA-256 on one block of words for each thread
// kernel: sha256
// grid: 264 1 1
// block: 128 1 1
// param x: u32[540672] = random:26
// param y: u32[270336] = zero
// expect y: exact = ?*270336

// oriole: arch=compute_80
__constant__ unsigned K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

__device__ unsigned turn(unsigned v, int by) { return __funnelshift_r(v, v, by); }

extern "C" __global__ void sha256(const unsigned *x, unsigned *y)
{
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, w[16];
    unsigned state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    for (int i = 0; i < 16; i++)
        w[i] = x[thread * 16 + i];
    unsigned a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
#pragma unroll
    for (int i = 0; i < 64; i++) {
        if (i >= 16) {
            unsigned p = w[(i + 1) & 15], q = w[(i + 14) & 15];
            w[i & 15] += (turn(p, 7) ^ turn(p, 18) ^ p >> 3) + w[(i + 9) & 15] + (turn(q, 17) ^ turn(q, 19) ^ q >> 10);
        }
        unsigned one = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i & 15];
        unsigned two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g; g = f; f = e; e = d + one; d = c; c = b; b = a; a = one + two;
    }
    unsigned out[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        y[thread * 8 + i] = state[i] + out[i];
}
