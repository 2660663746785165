// kernel-test 1
// about: f64 matrix product, tiles of 16 by 16
// kernel: matmul_double
// grid: 16 16 1
// block: 16 16 1
// param a: f64[65536] = sized:1
// param b: f64[65536] = sized:2
// param c: f64[65536] = zero
// param n: u32 = 100
// expect c: exact = ?*65536

// oriole: arch=compute_80
extern "C" __global__ void matmul_double(const double *a, const double *b, double *c, unsigned n)
{
    __shared__ double left[16][16], right[16][17];
    unsigned row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    double sum = 0;
    for (unsigned start = 0; start < n; start += 16) {
        left[threadIdx.y][threadIdx.x] = a[row * n + start + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(start + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < 16; k++)
            sum = fma(left[threadIdx.y][k], right[k][threadIdx.x], sum);
        __syncthreads();
    }
    c[row * n + column] = sum;
}
