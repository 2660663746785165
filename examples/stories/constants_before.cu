// kernel-test 1
// about: 64 steps of a recurrence in single precision
// kernel: relax
// grid: 1056 1 1
// block: 256 1 1
// param x: f32[270336] = sized:3
// param y: f32[270336] = zero
// expect y: exact = ?*270336

// oriole: arch=compute_80 options="-lineinfo"
extern "C" __global__ void relax(const float *x, float *y)
{
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    float value = x[i];
    #pragma unroll 4
    for (int step = 0; step < 64; step++)
        value = value * 0.5 + 0.25;
    y[i] = value;
}
