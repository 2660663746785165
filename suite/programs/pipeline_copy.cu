// Asynchronous copies to shared memory: pipeline primitives with two stages, and cp.async in assembly with a matrix product.
#include "../timing.h"

#include <cuda_pipeline.h>

const int TILE = 1024;

// Sums of tiles with weights, where the next tile is copied during the work on the current one.
__global__ void weighted_sums(const float4 *x, float *sums, int tiles)
{
    __shared__ float4 stage[2][TILE / 4];
    const float4 *own = x + size_t(blockIdx.x) * tiles * TILE / 4;
    auto fetch = [&](int tile) {
        if (tile < tiles)
            __pipeline_memcpy_async(&stage[tile % 2][threadIdx.x], &own[tile * TILE / 4 + threadIdx.x], 16);
        __pipeline_commit();
    };
    fetch(0);
    float sum = 0;
    for (int tile = 0; tile < tiles; tile++) {
        fetch(tile + 1);
        __pipeline_wait_prior(1);
        __syncthreads();
        // Another thread's part of the tile.
        float4 v = stage[tile % 2][(threadIdx.x * 7 + 3) % (TILE / 4)];
        sum += v.x + 2 * v.y + 3 * v.z + 4 * v.w;
        __syncthreads();
    }
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

__device__ inline void copy16(void *to, const void *from)
{
    unsigned address = __cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
}

// Tiles of 64 by 64, 16 deep, three stages.
__global__ void multiply(const float *a, const float *b, float *c, int n)
{
    // Copies of 16 bytes need aligned addresses.
    __shared__ __align__(16) float left[3][64][16], right[3][16][64];
    int thread = threadIdx.y * 16 + threadIdx.x, row = blockIdx.y * 64, column = blockIdx.x * 64;
    auto fetch = [&](int step) {
        if (step * 16 < n) {
            int s = step % 3;
            copy16(&left[s][thread / 4][thread % 4 * 4], &a[(row + thread / 4) * n + step * 16 + thread % 4 * 4]);
            copy16(&right[s][thread / 16][thread % 16 * 4], &b[(step * 16 + thread / 16) * n + column + thread % 16 * 4]);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    float sums[4][4] = {};
    fetch(0);
    fetch(1);
    for (int step = 0; step * 16 < n; step++) {
        fetch(step + 2);
        asm volatile("cp.async.wait_group 2;" ::: "memory");
        __syncthreads();
        int s = step % 3;
#pragma unroll
        for (int k = 0; k < 16; k++) {
            float u[4];
            for (int i = 0; i < 4; i++)
                u[i] = left[s][threadIdx.y * 4 + i][k];
            float4 v = *(const float4 *)&right[s][k][threadIdx.x * 4];
            for (int i = 0; i < 4; i++) {
                sums[i][0] += u[i] * v.x;
                sums[i][1] += u[i] * v.y;
                sums[i][2] += u[i] * v.z;
                sums[i][3] += u[i] * v.w;
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        *(float4 *)&c[(row + threadIdx.y * 4 + i) * n + column + threadIdx.x * 4] = make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
}

int main()
{
    const int blocks = 132, tiles = 16, n = 256;
    auto x = suite::floats(size_t(blocks) * tiles * TILE, 231);
    std::vector<double> expected(blocks * 256), product(n * n);
    for (int b = 0; b < blocks; b++)
        for (int t = 0; t < 256; t++)
            for (int tile = 0; tile < tiles; tile++)
                for (int k = 0; k < 4; k++)
                    expected[b * 256 + t] += (k + 1) * double(x[(size_t(b) * tiles + tile) * TILE + (t * 7 + 3) % 256 * 4 + k]);
    auto a = suite::floats(n * n, 232), b = suite::floats(n * n, 233);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            for (int j = 0; j < n; j++)
                product[i * n + j] += double(a[i * n + k]) * b[k * n + j];
    suite::Device<float> in(x), sums(blocks * 256), left(a), right(b), out(n * n);
    auto staged = [&] { weighted_sums<<<blocks, 256>>>((const float4 *)in.data(), sums, tiles); };
    auto matrix = [&] { multiply<<<dim3(n / 64, n / 64), dim3(16, 16)>>>(left, right, out, n); };
    staged();
    suite::close("sums", sums.host(), expected, 1e-4, 1e-4);
    matrix();
    suite::close("product", out.host(), product, 1e-4, 1e-4);
    suite::timed("weighted_sums", staged);
    suite::timed("multiply", matrix);
    return suite::finish();
}
