// kernel-test 1
// about: a sparse matrix times a dense one of 32 columns, a warp for each row
// kernel: spmm_rows
// grid: 2048 1 1
// block: 128 1 1
// param values: f32[262144] = sized:155
// param columns: u32[262144] = random:156
// param x: f32[524288] = sized:157
// param y: f32[262144] = zero
// expect y: exact = ?*262144

// oriole: arch=compute_80
extern "C" __global__ void spmm_rows(const float *values, const unsigned *columns, const float *x, float *y)
{
    unsigned row = (blockIdx.x * 128 + threadIdx.x) / 32, lane = threadIdx.x % 32;
    // Each lane loads one element; the warp goes through them by shuffles.
    float value = values[row * 32 + lane], sum = 0;
    unsigned column = columns[row * 32 + lane] & 16383;
    for (int i = 0; i < 32; i++)
        sum += __shfl_sync(~0u, value, i) * x[__shfl_sync(~0u, column, i) * 32 + lane];
    y[row * 32 + lane] = sum;
}
