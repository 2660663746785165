// kernel-test 1
// about: f64 division, square root, exponential and logarithm
// kernel: double_math
// grid: 264 1 1
// block: 128 1 1
// param x: f64[135168] = sized:31
// param y: f64[135168] = zero
// param n: u32 = 21000
// expect y: exact = ?*135168

// oriole: arch=compute_80
extern "C" __global__ void double_math(const double *x, double *y, unsigned n)
{
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        double a = fabs(x[i]);
        y[i] = exp(-a) + log(a + 1.0) / sqrt(a + 2.0) + 1.0 / (a + 0.5);
    }
}
