// kernel-test 1
// about: a sparse matrix in rows times a vector, a thread for each row
// kernel: spmv_scalar
// grid: 512 1 1
// block: 128 1 1
// param values: f32[2097152] = sized:142
// param columns: u32[2097152] = random:143
// param x: f32[65536] = sized:144
// param y: f32[65536] = zero
// expect y: exact = ?*65536

// oriole: arch=compute_80
extern "C" __global__ void spmv_scalar(const float *values, const unsigned *columns, const float *x, float *y)
{
    unsigned row = blockIdx.x * 128 + threadIdx.x, start = row * 32, end = start + 1 + (row * 2654435761u >> 27);
    float sum = 0;
    for (unsigned i = start; i < end; i++)
        sum += values[i] * x[columns[i] & 65535];
    y[row] = sum;
}
