// kernel-test 1
// about: sum of four million integers, one for each block
// kernel: reduce_sum
// grid: 1024 1 1
// block: 256 1 1
// param x: u32[4194304] = random:7
// param sums: u32[1024] = zero
// param n: u32 = 400000
// expect sums: exact = ?*1024

// oriole: arch=compute_80
extern "C" __global__ void reduce_sum(const unsigned *x, unsigned *sums, unsigned n)
{
    __shared__ unsigned parts[256];
    unsigned sum = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += x[i];
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half >= 32; half /= 2) {
        if (threadIdx.x < half)
            parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x < 32) {
        sum = parts[threadIdx.x];
        for (int step = 16; step; step /= 2)
            sum += __shfl_down_sync(~0u, sum, step);
        if (threadIdx.x == 0)
            sums[blockIdx.x] = sum;
    }
}
