// kernel-test 1
// about: Montgomery products of numbers of 256 bits by words of 32 bits with carries
// kernel: montgomery_256
// grid: 256 1 1
// block: 128 1 1
// param a: u32[262144] = random:191
// param b: u32[262144] = random:192
// param out: u32[262144] = zero
// expect out: exact = ?*262144

// oriole: arch=compute_80
extern "C" __global__ void montgomery_256(const unsigned *a, const unsigned *b, unsigned *out)
{
    // The prime of secp256k1, least word first, and the negative inverse of its lowest word.
    const unsigned p[8] = {0xfffffc2f, 0xfffffffe, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u}, inverse = 0xd2253531;
    unsigned at = blockIdx.x * 128 + threadIdx.x, n = 32768, x[8], y[8], t[10] = {};
#pragma unroll
    for (int i = 0; i < 8; i++) {
        x[i] = a[i * n + at];
        y[i] = b[i * n + at];
    }
#pragma unroll 1
    for (int repeat = 0; repeat < 8; repeat++) {
#pragma unroll
        for (int i = 0; i < 10; i++)
            t[i] = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            unsigned long long carry = 0;
#pragma unroll
            for (int j = 0; j < 8; j++) {
                carry += (unsigned long long)x[j] * y[i] + t[j];
                t[j] = (unsigned)carry;
                carry >>= 32;
            }
            carry += t[8];
            t[8] = (unsigned)carry;
            t[9] = (unsigned)(carry >> 32);
            unsigned m = t[0] * inverse;
            carry = (unsigned long long)m * p[0] + t[0];
            carry >>= 32;
#pragma unroll
            for (int j = 1; j < 8; j++) {
                carry += (unsigned long long)m * p[j] + t[j];
                t[j - 1] = (unsigned)carry;
                carry >>= 32;
            }
            carry += t[8];
            t[7] = (unsigned)carry;
            t[8] = t[9] + (unsigned)(carry >> 32);
        }
        // A result of more than 256 bits is reduced once; others stay as they are.
        long long borrow = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            borrow += (long long)t[i] - (t[8] ? p[i] : 0);
            x[i] = (unsigned)borrow;
            borrow >>= 32;
        }
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        out[i * n + at] = x[i];
}
