// kernel-test 1
// about: a step of radix 8 in registers, with twiddle factors from a table
// kernel: fft_radix8
// grid: 1024 1 1
// block: 64 1 1
// param x: f32[1048576] = sized:216
// param twiddles: f32[1024] = sized:217
// param y: f32[1048576] = zero
// expect y: exact = ?*1048576

// oriole: arch=compute_80
__device__ float2 times(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

__device__ void butterfly(float2 &a, float2 &b)
{
    float2 sum = make_float2(a.x + b.x, a.y + b.y);
    b = make_float2(a.x - b.x, a.y - b.y);
    a = sum;
}

extern "C" __global__ void fft_radix8(const float2 *x, const float2 *twiddles, float2 *y)
{
    const float half = 0.70710678f;
    float2 v[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = x[blockIdx.x * 512 + i * 64 + threadIdx.x];
#pragma unroll
    for (int i = 1; i < 8; i++)
        v[i] = times(v[i], twiddles[(threadIdx.x * i) & 511]);
    butterfly(v[0], v[4]); butterfly(v[1], v[5]); butterfly(v[2], v[6]); butterfly(v[3], v[7]);
    v[5] = make_float2((v[5].x + v[5].y) * half, (v[5].y - v[5].x) * half);
    v[6] = make_float2(v[6].y, -v[6].x);
    v[7] = make_float2((v[7].y - v[7].x) * half, (-v[7].x - v[7].y) * half);
    butterfly(v[0], v[2]); butterfly(v[1], v[3]); butterfly(v[4], v[6]); butterfly(v[5], v[7]);
    v[3] = make_float2(v[3].y, -v[3].x);
    v[7] = make_float2(v[7].y, -v[7].x);
    butterfly(v[0], v[1]); butterfly(v[2], v[3]); butterfly(v[4], v[5]); butterfly(v[6], v[7]);
    const int order[8] = {0, 4, 2, 6, 1, 5, 3, 7};
#pragma unroll
    for (int i = 0; i < 8; i++)
        y[blockIdx.x * 512 + threadIdx.x * 8 + i] = v[order[i]];
}
