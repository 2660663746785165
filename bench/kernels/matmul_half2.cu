// kernel-test 1
// about: f16 matrix product in pairs, 32 by 32 for a block
// kernel: matmul_half2
// grid: 16 16 1
// block: 16 16 1
// param a: u32[131072] = random:1
// param b: u32[131072] = random:2
// param c: u32[131072] = zero
// param n: u32 = 200
// expect c: exact = ?*131072

// oriole: arch=compute_80
#include <cuda_fp16.h>
extern "C" __global__ void matmul_half2(const unsigned *a, const unsigned *b, unsigned *c, unsigned n)
{
    __shared__ __half2 left[32][16], right[32][16];
    unsigned pairs = n / 2, thread = threadIdx.y * 16 + threadIdx.x;
    __half2 sums[2] = {__float2half2_rn(0), __float2half2_rn(0)};
    // Random bits, made small: exponents of 2^-4 to 2^3.
    auto tame = [](unsigned bits) { bits = (bits & 0x8fff8fffu) | 0x30003000u; return *reinterpret_cast<__half2 *>(&bits); };
    for (unsigned start = 0; start < n; start += 32) {
        for (int part = 0; part < 2; part++) {
            unsigned at = thread + part * 256;
            left[at / 16][at % 16] = tame(a[(blockIdx.y * 32 + at / 16) * pairs + start / 2 + at % 16]);
            right[at / 16][at % 16] = tame(b[(start + at / 16) * pairs + blockIdx.x * 16 + at % 16]);
        }
        __syncthreads();
        for (int k = 0; k < 16; k++)
            for (int i = 0; i < 2; i++) {
                __half2 x = left[threadIdx.y * 2 + i][k];
                sums[i] = __hfma2(__low2half2(x), right[2 * k][threadIdx.x], sums[i]);
                sums[i] = __hfma2(__high2half2(x), right[2 * k + 1][threadIdx.x], sums[i]);
            }
        __syncthreads();
    }
    for (int i = 0; i < 2; i++)
        c[(blockIdx.y * 32 + threadIdx.y * 2 + i) * pairs + blockIdx.x * 16 + threadIdx.x] = *reinterpret_cast<unsigned *>(&sums[i]);
}
