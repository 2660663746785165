// Reductions: shuffles inside a warp, shared memory across warps, one atomic per block.
// oriole: arch=compute_80

template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_down_sync(0xffffffffu, value, offset);
    return value;
}

extern "C" __global__ void block_sum(const float* __restrict__ in, float* out, int n) {
    __shared__ float partial[32];
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) sum += in[i];
    sum = warp_sum(sum);
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (lane == 0) partial[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = lane < (blockDim.x + 31) / 32 ? partial[lane] : 0.0f;
        sum = warp_sum(sum);
        if (lane == 0) atomicAdd(out, sum);
    }
}

// Arg-max by butterfly shuffles on a (value, index) pair; 64-bit values travel as two words.
extern "C" __global__ void warp_argmax(const double* in, int* index_out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double best = i < n ? in[i] : -1e308;
    int where = i;
    for (int mask = 16; mask; mask /= 2) {
        double other = __shfl_xor_sync(~0u, best, mask);
        int other_where = __shfl_xor_sync(~0u, where, mask);
        if (other > best || (other == best && other_where < where)) { best = other; where = other_where; }
    }
    if ((threadIdx.x & 31) == 0) index_out[i >> 5] = where;
}
