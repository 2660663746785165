// kernel-test 1
// about: matrix product with cp.async in two stages
// kernel: async_copies
// grid: 16 16 1
// block: 16 16 1
// param a: f32[1048576] = sized:41
// param b: f32[1048576] = sized:42
// param c: f32[1048576] = zero
// param n: u32 = 400
// expect c: exact = ?*1048576

// oriole: arch=compute_80
#include <cuda_pipeline.h>
extern "C" __global__ void __launch_bounds__(256) async_copies(const float *a, const float *b, float *c, unsigned n)
{
    __shared__ __align__(16) float left[2][64][16], right[2][16][64];
    unsigned thread = threadIdx.y * 16 + threadIdx.x, row = blockIdx.y * 64, column = blockIdx.x * 64;
    auto fetch = [&](int stage, unsigned start) {
        __pipeline_memcpy_async(&left[stage][thread / 4][thread % 4 * 4], &a[(row + thread / 4) * n + start + thread % 4 * 4], 16);
        __pipeline_memcpy_async(&right[stage][thread / 16][thread % 16 * 4], &b[(start + thread / 16) * n + column + thread % 16 * 4], 16);
        __pipeline_commit();
    };
    float sums[4][4] = {};
    fetch(0, 0);
    for (unsigned start = 0, stage = 0; start < n; start += 16, stage ^= 1) {
        if (start + 16 < n) {
            fetch(stage ^ 1, start + 16);
            __pipeline_wait_prior(1);
        } else {
            __pipeline_wait_prior(0);
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; k++) {
            float4 y = *reinterpret_cast<float4 *>(&right[stage][k][threadIdx.x * 4]);
            float ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float x = left[stage][threadIdx.y * 4 + i][k];
#pragma unroll
                for (int j = 0; j < 4; j++)
                    sums[i][j] = fmaf(x, ys[j], sums[i][j]);
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            c[(row + threadIdx.y * 4 + i) * n + column + threadIdx.x * 4 + j] = sums[i][j];
}
