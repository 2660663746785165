// kernel-test 1
// about: f32 matrix product, tiles of 16 by 16 in shared memory
// kernel: matmul_tiled
// grid: 32 32 1
// block: 16 16 1
// param a: f32[262144] = sized:1
// param b: f32[262144] = sized:2
// param c: f32[262144] = zero
// param n: u32 = 200
// expect c: exact = ?*262144

// oriole: arch=compute_80
extern "C" __global__ void matmul_tiled(const float *a, const float *b, float *c, unsigned n)
{
    __shared__ float left[16][16], right[16][17];
    unsigned row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (unsigned start = 0; start < n; start += 16) {
        left[threadIdx.y][threadIdx.x] = a[row * n + start + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(start + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < 16; k++)
            sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
