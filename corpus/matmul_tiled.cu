// Dense matrix products: shared-memory tiles, register tiles, and a double-precision variant with launch bounds.
// oriole: arch=compute_80
// oriole: arch=compute_100

extern "C" __global__ void matmul_shared(const float* __restrict__ a, const float* __restrict__ b,
                                         float* __restrict__ c, int m, int n, int k) {
    __shared__ float tile_a[16][16], tile_b[16][17];
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < (k + 15) / 16; ++t) {
        int ka = t * 16 + threadIdx.x, kb = t * 16 + threadIdx.y;
        tile_a[threadIdx.y][threadIdx.x] = row < m && ka < k ? a[row * k + ka] : 0.0f;
        tile_b[threadIdx.y][threadIdx.x] = kb < k && col < n ? b[kb * n + col] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; ++i) sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = sum;
}

// Each thread owns an 8x8 block of the result: high register pressure, 128-bit shared loads.
extern "C" __global__ __launch_bounds__(256, 2) void matmul_register_tile(const float* __restrict__ a,
                                                                          const float* __restrict__ b,
                                                                          float* __restrict__ c, int n, int k) {
    __shared__ __align__(16) float sa[8][128], sb[8][128];
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    float acc[8][8] = {};
    const float* pa = a + blockIdx.y * 128 * k;
    const float* pb = b + blockIdx.x * 128;
    for (int k0 = 0; k0 < k; k0 += 8) {
        float4 va = *(const float4*)(pa + (threadIdx.x / 2) * k + k0 + (threadIdx.x % 2) * 4);
        int r = (threadIdx.x % 2) * 4, q = threadIdx.x / 2;
        sa[r][q] = va.x; sa[r + 1][q] = va.y; sa[r + 2][q] = va.z; sa[r + 3][q] = va.w;
        *(float4*)&sb[threadIdx.x / 32][(threadIdx.x % 32) * 4] =
            *(const float4*)(pb + (k0 + threadIdx.x / 32) * n + (threadIdx.x % 32) * 4);
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < 8; ++kk) {
            float fa[8], fb[8];
            *(float4*)fa = *(float4*)&sa[kk][ty * 8];
            *(float4*)(fa + 4) = *(float4*)&sa[kk][ty * 8 + 4];
            *(float4*)fb = *(float4*)&sb[kk][tx * 8];
            *(float4*)(fb + 4) = *(float4*)&sb[kk][tx * 8 + 4];
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j) acc[i][j] = fmaf(fa[i], fb[j], acc[i][j]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; j += 4)
            *(float4*)&c[(blockIdx.y * 128 + ty * 8 + i) * n + blockIdx.x * 128 + tx * 8 + j] =
                make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
}

extern "C" __global__ __launch_bounds__(128) void matmul_double(const double* a, const double* b, double* c, int n) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n || col >= n) return;
    double sum = 0;
    for (int i = 0; i < n; ++i) sum = fma(a[row * n + i], b[i * n + col], sum);
    c[row * n + col] = sum;
}
