// kernel-test 1
// about: rows of half divided by the root of their mean square, with residual and weights
// kernel: rms_norm_half
// grid: 2048 1 1
// block: 128 1 1
// param x: f16[2097152] = sized:204
// param residual: f16[2097152] = sized:205
// param weight: f16[1024] = sized:206
// param y: f16[2097152] = zero
// expect y: exact = ?*2097152

// oriole: arch=compute_80
#include <cuda_fp16.h>

extern "C" __global__ void rms_norm_half(const uint4 *x, const uint4 *residual, const uint4 *weight, uint4 *y)
{
    __shared__ float parts[4];
    unsigned at = blockIdx.x * 128 + threadIdx.x;
    uint4 a = x[at], b = residual[at], w = weight[threadIdx.x], result;
    const __half2 *u = (const __half2 *)&a, *v = (const __half2 *)&b, *scale = (const __half2 *)&w;
    float2 values[4];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 p = __half22float2(u[i]), q = __half22float2(v[i]);
        values[i] = make_float2(p.x + q.x, p.y + q.y);
        sum += values[i].x * values[i].x + values[i].y * values[i].y;
    }
    for (int step = 16; step; step /= 2)
        sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = sum;
    __syncthreads();
    float inverse = rsqrtf((parts[0] + parts[1] + parts[2] + parts[3]) / 1024 + 1e-5f);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 s = __half22float2(scale[i]);
        ((__half2 *)&result)[i] = __floats2half2_rn(values[i].x * inverse * s.x, values[i].y * inverse * s.y);
    }
    y[at] = result;
}
