// kernel-test 1
// about: polynomials of f16 pairs
// kernel: half2_polynomial
// grid: 528 1 1
// block: 256 1 1
// param x: u32[2162688] = random:24
// param y: u32[2162688] = zero
// param n: u32 = 210000
// expect y: exact = ?*2162688

// oriole: arch=compute_80
#include <cuda_fp16.h>
extern "C" __global__ void half2_polynomial(const unsigned *x, unsigned *y, unsigned n)
{
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned bits = (x[i] & 0x8fff8fffu) | 0x30003000u;
        __half2 a = *reinterpret_cast<__half2 *>(&bits), sum = __float2half2_rn(0.5f);
#pragma unroll
        for (int k = 0; k < 16; k++)
            sum = __hfma2(sum, a, __float2half2_rn(0.0625f * (k + 1)));
        sum = __hmul2(sum, h2rcp(__hadd2(__habs2(a), __float2half2_rn(1.0f))));
        y[i] = *reinterpret_cast<unsigned *>(&sum);
    }
}
