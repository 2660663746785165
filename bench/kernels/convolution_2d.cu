// kernel-test 1
// about: filter of 7 by 7 with coefficients in constant-like memory
// kernel: convolution_2d
// grid: 64 64 1
// block: 16 16 1
// param x: f32[1115136] = sized:17
// param filter: f32[49] = sized:18
// param y: f32[1048576] = zero
// expect y: exact = ?*1048576

// oriole: arch=compute_80
extern "C" __global__ void convolution_2d(const float *__restrict__ x, const float *__restrict__ filter, float *y)
{
    const int n = 1024, wide = 1056;
    __shared__ float tile[22][23];
    __shared__ float coefficients[49];
    int thread = threadIdx.y * 16 + threadIdx.x;
    if (thread < 49)
        coefficients[thread] = filter[thread];
    for (int i = thread; i < 22 * 22; i += 256)
        tile[i / 22][i % 22] = x[(blockIdx.y * 16 + i / 22) * wide + blockIdx.x * 16 + i % 22];
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int r = 0; r < 7; r++)
#pragma unroll
        for (int c = 0; c < 7; c++)
            sum = fmaf(tile[threadIdx.y + r][threadIdx.x + c], coefficients[r * 7 + c], sum);
    y[(blockIdx.y * 16 + threadIdx.y) * n + blockIdx.x * 16 + threadIdx.x] = sum;
}
