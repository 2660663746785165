// kernel-test 1
// about: y = a x + y
// kernel: axpy
// grid: 2048 1 1
// block: 256 1 1
// param a: f32 = 3fc00000
// param x: f32[8388608] = sized:39
// param y: f32[8388608] = sized:40
// param out: f32[8388608] = zero
// param n: u32 = 800000
// expect out: exact = ?*8388608

// oriole: arch=compute_80
extern "C" __global__ void axpy(float a, const float *x, const float *y, float *out, unsigned n)
{
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = fmaf(a, x[i], y[i]);
}
