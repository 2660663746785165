// kernel-test 1
// about: product of a sparse matrix in rows with a vector, a warp for each row
// kernel: sparse_rows
// grid: 1024 1 1
// block: 128 1 1
// param values: f32[1048576] = sized:28
// param columns: u32[1048576] = random:29
// param x: f32[65536] = sized:30
// param y: f32[4096] = zero
// expect y: exact = ?*4096

// oriole: arch=compute_80
extern "C" __global__ void sparse_rows(const float *values, const unsigned *columns, const float *x, float *y)
{
    unsigned row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    unsigned start = row * 256, end = start + 64 + (row * 2654435761u >> 25);
    float sum = 0;
    for (unsigned i = start + lane; i < end; i += 32)
        sum = fmaf(values[i], x[columns[i] & 65535], sum);
    for (int step = 16; step; step /= 2)
        sum += __shfl_down_sync(~0u, sum, step);
    if (lane == 0)
        y[row] = sum;
}
