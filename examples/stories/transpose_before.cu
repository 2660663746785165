// kernel-test 1
// about: transposes a matrix of 2048 x 2048 words through tiles in shared memory
// kernel: transpose
// grid: 64 64 1
// block: 32 8 1
// param x: u32[4194304] = random:10
// param y: u32[4194304] = zero
// expect y: exact = ?*4194304

// oriole: arch=compute_80 options="-lineinfo"
extern "C" __global__ void transpose(const unsigned *x, unsigned *y)
{
    const unsigned n = 2048;
    __shared__ unsigned tile[32][32];
    unsigned column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        tile[threadIdx.y + i][threadIdx.x] = x[(row + i) * n + column];
    __syncthreads();
    column = blockIdx.y * 32 + threadIdx.x;
    row = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        y[(row + i) * n + column] = tile[threadIdx.x][threadIdx.y + i];
}
