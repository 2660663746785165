// kernel-test 1
// about: histogram of bytes, one of 256 counters for each block, then added up
// kernel: histogram_shared
// grid: 264 1 1
// block: 256 1 1
// param x: u32[2097152] = random:11
// param counts: u32[256] = zero
// param n: u32 = 200000
// expect counts: exact = ?*256

// oriole: arch=compute_80
extern "C" __global__ void histogram_shared(const unsigned *x, unsigned *counts, unsigned n)
{
    __shared__ unsigned own[256];
    own[threadIdx.x] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned word = x[i];
        atomicAdd(&own[word & 255], 1);
        atomicAdd(&own[word >> 8 & 255], 1);
        atomicAdd(&own[word >> 16 & 255], 1);
        atomicAdd(&own[word >> 24], 1);
    }
    __syncthreads();
    atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}
