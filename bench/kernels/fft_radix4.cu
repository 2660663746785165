// kernel-test 1
// about: transforms of 1024 points with steps of radix 4 in shared memory
// kernel: fft_radix4
// grid: 512 1 1
// block: 256 1 1
// param x: f32[1048576] = sized:215
// param y: f32[1048576] = zero
// expect y: exact = ?*1048576

// oriole: arch=compute_80
__device__ float2 times(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
__device__ float2 plus(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ float2 minus(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }

extern "C" __global__ void fft_radix4(const float2 *x, float2 *y)
{
    __shared__ float2 points[1024];
    int thread = threadIdx.x;
    float2 v[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        v[i] = x[blockIdx.x * 1024 + thread + i * 256];
#pragma unroll 1
    for (int size = 1; size < 1024; size *= 4) {
        int low = thread & (size - 1);
        float angle = -1.5707963f * low / size;
#pragma unroll
        for (int i = 1; i < 4; i++) {
            float2 w;
            __sincosf(angle * i, &w.y, &w.x);
            v[i] = times(v[i], w);
        }
        float2 a = plus(v[0], v[2]), b = minus(v[0], v[2]), c = plus(v[1], v[3]), d = minus(v[1], v[3]);
        int place = (thread - low) * 4 + low;
        __syncthreads();
        points[place] = plus(a, c);
        points[place + size] = make_float2(b.x + d.y, b.y - d.x);
        points[place + 2 * size] = minus(a, c);
        points[place + 3 * size] = make_float2(b.x - d.y, b.y + d.x);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 4; i++)
            v[i] = points[thread + i * 256];
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        y[blockIdx.x * 1024 + thread + i * 256] = v[i];
}
