// kernel-test 1
// about: counts of digits of eight bits for each block, in shared memory
// kernel: radix_count
// grid: 512 1 1
// block: 256 1 1
// param keys: u32[2097152] = random:158
// param counts: u32[131072] = zero
// param shift: u32 = 8
// expect counts: exact = ?*131072

// oriole: arch=compute_80
extern "C" __global__ void radix_count(const uint4 *keys, unsigned *counts, unsigned shift)
{
    __shared__ unsigned local[256];
    local[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint4 k = keys[(blockIdx.x * 4 + i) * 256 + threadIdx.x];
        atomicAdd(&local[k.x >> shift & 255], 1u);
        atomicAdd(&local[k.y >> shift & 255], 1u);
        atomicAdd(&local[k.z >> shift & 255], 1u);
        atomicAdd(&local[k.w >> shift & 255], 1u);
    }
    __syncthreads();
    counts[threadIdx.x * gridDim.x + blockIdx.x] = local[threadIdx.x];
}
