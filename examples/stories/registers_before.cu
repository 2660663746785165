// kernel-test 1
// about: each thread computes 48 sums of products
// kernel: products
// grid: 264 1 1
// block: 256 1 1
// param a: f32[67584] = sized:5
// param b: f32[3072] = sized:6
// param c: f32[3244032] = zero
// expect c: exact = ?*3244032

// oriole: arch=compute_80 options="-lineinfo"
extern "C" __global__ void __launch_bounds__(256, 6) products(const float *a, const float *b, float *c)
{
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    float sums[48];
    for (int j = 0; j < 48; j++)
        sums[j] = 0;
    float value = a[i];
    #pragma unroll 1
    for (int k = 0; k < 64; k++) {
        value = value * 0.75f + 0.125f;
        #pragma unroll
        for (int j = 0; j < 48; j++)
            sums[j] += value * b[k * 48 + j];
    }
    #pragma unroll
    for (int j = 0; j < 48; j++)
        c[j * 67584 + i] = sums[j];
}
