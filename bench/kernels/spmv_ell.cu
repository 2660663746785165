// kernel-test 1
// about: a sparse matrix in ELLPACK format times a vector in double
// kernel: spmv_ell
// grid: 1024 1 1
// block: 128 1 1
// param values: f64[2097152] = sized:145
// param columns: u32[2097152] = random:146
// param x: f64[65536] = sized:147
// param y: f64[131072] = zero
// expect y: exact = ?*131072

// oriole: arch=compute_80
extern "C" __global__ void spmv_ell(const double *values, const unsigned *columns, const double *x, double *y)
{
    unsigned row = blockIdx.x * 128 + threadIdx.x, rows = 131072;
    double sum = 0;
    for (int i = 0; i < 16; i++) {
        unsigned column = columns[i * rows + row];
        // One in four places is empty.
        if (column >> 30)
            sum += values[i * rows + row] * x[column & 65535];
    }
    y[row] = sum;
}
