// kernel-test 1
// about: f32 matrix product, 64 by 64 for a block, 4 by 4 for a thread
// kernel: matmul_registers
// grid: 16 16 1
// block: 16 16 1
// param a: f32[1048576] = sized:1
// param b: f32[1048576] = sized:2
// param c: f32[1048576] = zero
// param n: u32 = 400
// expect c: exact = ?*1048576

// oriole: arch=compute_80
extern "C" __global__ void __launch_bounds__(256) matmul_registers(const float *a, const float *b, float *c, unsigned n)
{
    __shared__ float left[16][64], right[16][64];
    unsigned thread = threadIdx.y * 16 + threadIdx.x;
    unsigned row = blockIdx.y * 64, column = blockIdx.x * 64;
    float sums[4][4] = {};
    for (unsigned start = 0; start < n; start += 16) {
        for (int part = 0; part < 4; part++) {
            unsigned at = thread + part * 256;
            left[at % 16][at / 16] = a[(row + at / 16) * n + start + at % 16];
            right[at / 64][at % 64] = b[(start + at / 64) * n + column + at % 64];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; k++) {
            float4 x = *reinterpret_cast<float4 *>(&left[k][threadIdx.y * 4]);
            float4 y = *reinterpret_cast<float4 *>(&right[k][threadIdx.x * 4]);
            float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    sums[i][j] = fmaf(xs[i], ys[j], sums[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            c[(row + threadIdx.y * 4 + i) * n + column + threadIdx.x * 4 + j] = sums[i][j];
}
