// kernel-test 1
// about: softmax of rows of 1024, a block for each
// kernel: softmax_rows
// grid: 2048 1 1
// block: 256 1 1
// param x: f32[2097152] = sized:3
// param y: f32[2097152] = zero
// param n: u32 = 400
// expect y: exact = ?*2097152

// oriole: arch=compute_80
extern "C" __global__ void softmax_rows(const float *x, float *y, unsigned n)
{
    __shared__ float parts[8];
    const float *row = x + blockIdx.x * n;
    float most = -3.4e38f;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
        most = fmaxf(most, row[i]);
    for (int step = 16; step; step /= 2)
        most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = most;
    __syncthreads();
    most = parts[0];
    for (int i = 1; i < 8; i++)
        most = fmaxf(most, parts[i]);
    __syncthreads();
    float sum = 0;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
        sum += expf(row[i] - most);
    for (int step = 16; step; step /= 2)
        sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < 8; i++)
        sum += parts[i];
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
        y[blockIdx.x * n + i] = expf(row[i] - most) / sum;
}
