// kernel-test 1
// about: bytes with a scale and a zero point for each group become bf16, and bf16 rows get scaled
// kernel: dequantize_bf16
// grid: 2048 1 1
// block: 256 1 1
// param x: u32[2097152] = random:170
// param scales: f32[131072] = sized:171
// param y: u32[4194304] = zero
// expect y: exact = ?*4194304

// oriole: arch=compute_80
#include <cuda_bf16.h>

extern "C" __global__ void dequantize_bf16(const unsigned *x, const float2 *scales, __nv_bfloat162 *y)
{
    for (unsigned at = blockIdx.x * 256 + threadIdx.x; at < 2097152; at += gridDim.x * 256) {
        unsigned word = x[at];
        float2 s = scales[at / 32];
        float a = ((int)(word & 255) - s.y) * s.x, b = ((int)(word >> 8 & 255) - s.y) * s.x;
        float c = ((int)(word >> 16 & 255) - s.y) * s.x, d = ((int)(word >> 24) - s.y) * s.x;
        y[at * 2] = __floats2bfloat162_rn(a, b);
        y[at * 2 + 1] = __floats2bfloat162_rn(c, d);
    }
}
