// kernel-test 1
// about: sine, cosine, power, arc tangent of f32
// kernel: float_math
// grid: 528 1 1
// block: 256 1 1
// param x: f32[540672] = sized:32
// param y: f32[540672] = zero
// param n: u32 = 84000
// expect y: exact = ?*540672

// oriole: arch=compute_80
extern "C" __global__ void float_math(const float *x, float *y, unsigned n)
{
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float a = x[i], s, c;
        sincosf(a * 3.0f, &s, &c);
        y[i] = s * c + powf(fabsf(a), 1.3f) + atan2f(a, c + 2.0f) + cbrtf(a) + tanhf(a);
    }
}
