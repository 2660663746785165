// kernel-test 1
// about: rotates pairs of half by angles that grow with the position: sine and cosine with reduction
// kernel: rotary_embedding
// grid: 4096 1 1
// block: 128 1 1
// param x: f16[1048576] = sized:212
// param y: f16[1048576] = zero
// expect y: exact = ?*1048576

// oriole: arch=compute_80
#include <cuda_fp16.h>

extern "C" __global__ void rotary_embedding(const __half2 *x, __half2 *y)
{
    unsigned position = blockIdx.x, pair = threadIdx.x % 64, at = position * 128 + threadIdx.x;
    float frequency = exp2f(pair * -0.2076205f), s, c;
    sincosf(position * frequency, &s, &c);
    float2 v = __half22float2(x[at]);
    y[at] = __floats2half2_rn(v.x * c - v.y * s, v.x * s + v.y * c);
}
