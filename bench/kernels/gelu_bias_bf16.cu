// kernel-test 1
// about: bias and GELU on bf16 by the formula with tanh
// kernel: gelu_bias_bf16
// grid: 2048 1 1
// block: 256 1 1
// param x: bf16[4194304] = sized:210
// param bias: bf16[1024] = sized:211
// param y: bf16[4194304] = zero
// expect y: exact = ?*4194304

// oriole: arch=compute_80
#include <cuda_bf16.h>

__device__ float gelu(float v) { return 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v))); }

extern "C" __global__ void gelu_bias_bf16(const __nv_bfloat162 *x, const __nv_bfloat162 *bias, __nv_bfloat162 *y)
{
    for (unsigned at = blockIdx.x * 256 + threadIdx.x; at < 2097152; at += gridDim.x * 256) {
        float2 v = __bfloat1622float2(x[at]), b = __bfloat1622float2(bias[at % 512]);
        y[at] = __floats2bfloat162_rn(gelu(v.x + b.x), gelu(v.y + b.y));
    }
}
