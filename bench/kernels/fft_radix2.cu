// kernel-test 1
// about: transform of 1024 complex numbers in shared memory
// kernel: fft_radix2
// grid: 512 1 1
// block: 512 1 1
// param x: f32[1048576] = sized:35
// param y: f32[1048576] = zero
// expect y: exact = ?*1048576

// oriole: arch=compute_80
extern "C" __global__ void fft_radix2(const float2 *x, float2 *y)
{
    __shared__ float2 data[1024];
    unsigned thread = threadIdx.x, start = blockIdx.x * 1024;
    for (int half = 0; half < 2; half++) {
        unsigned at = thread + half * 512;
        data[__brev(at) >> 22] = x[start + at];
    }
    for (unsigned size = 1; size < 1024; size *= 2) {
        __syncthreads();
        unsigned k = thread & (size - 1), low = 2 * (thread - k) + k;
        float s, c;
        __sincosf(-3.14159265f * k / size, &s, &c);
        float2 a = data[low], b = data[low + size];
        float2 turned = make_float2(b.x * c - b.y * s, b.x * s + b.y * c);
        data[low] = make_float2(a.x + turned.x, a.y + turned.y);
        data[low + size] = make_float2(a.x - turned.x, a.y - turned.y);
    }
    __syncthreads();
    y[start + thread] = data[thread];
    y[start + thread + 512] = data[thread + 512];
}
