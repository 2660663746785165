// kernel-test 1
// about: five-point stencil on a tile with a rim
// kernel: stencil_2d
// grid: 64 64 1
// block: 32 8 1
// param x: f32[4194304] = sized:8
// param y: f32[4194304] = zero
// param n: u32 = 800
// expect y: exact = ?*4194304

// oriole: arch=compute_80
extern "C" __global__ void stencil_2d(const float *x, float *y, unsigned n)
{
    __shared__ float tile[34][35];
    int left = blockIdx.x * 32, top = blockIdx.y * 32;
    for (int i = threadIdx.y * 32 + threadIdx.x; i < 34 * 34; i += 256) {
        int r = top + i / 34 - 1, c = left + i % 34 - 1;
        r = min(max(r, 0), (int)n - 1);
        c = min(max(c, 0), (int)n - 1);
        tile[i / 34][i % 34] = x[r * n + c];
    }
    __syncthreads();
    for (int part = 0; part < 4; part++) {
        int r = threadIdx.y + part * 8 + 1, c = threadIdx.x + 1;
        float around = tile[r - 1][c] + tile[r + 1][c] + tile[r][c - 1] + tile[r][c + 1];
        y[(top + r - 1) * n + left + c - 1] = 0.5f * tile[r][c] + 0.125f * around;
    }
}
