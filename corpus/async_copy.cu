// Asynchronous copies to shared memory: cp.async with groups, double buffering, and mbarrier on sm_80.
// oriole: arch=compute_80

__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

extern "C" __global__ void pipelined_sum(const float4* __restrict__ in, float* out, int tiles) {
    __shared__ __align__(16) float4 stage[2][128];
    int t = threadIdx.x;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(&stage[0][t])), "l"(in + t) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    float sum = 0;
    for (int k = 0; k < tiles; ++k) {
        if (k + 1 < tiles)
            asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;"
                         ::"r"(shared_address(&stage[(k + 1) & 1][t])), "l"(in + (k + 1) * 128 + t) : "memory");
        asm volatile("cp.async.commit_group;\n\tcp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        float4 v = stage[k & 1][127 - t];
        sum += v.x + v.y * v.z - v.w;
        __syncthreads();
    }
    out[blockIdx.x * blockDim.x + t] = sum;
}

extern "C" __global__ void guarded_async(const int* in, int* out, int n) {
    __shared__ int buffer[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    int bytes = i < n ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(&buffer[threadIdx.x])), "l"(in + i), "r"(bytes) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    out[i] = buffer[threadIdx.x ^ 1];
}

extern "C" __global__ void barrier_object(const float* in, float* out) {
    __shared__ __align__(8) unsigned long long barrier;
    __shared__ float buffer[128];
    unsigned bar = shared_address(&barrier);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(blockDim.x) : "memory");
    __syncthreads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(&buffer[threadIdx.x])), "l"(in + threadIdx.x) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(bar) : "memory");
    unsigned long long token;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(token) : "r"(bar) : "memory");
    unsigned pending;
    asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(pending) : "l"(token));
    int done = 0;
    while (!done)
        asm volatile("{\n\t.reg .pred p;\n\tmbarrier.test_wait.shared.b64 p, [%1], %2;\n\tselp.b32 %0, 1, 0, p;\n\t}"
                     : "=r"(done) : "r"(bar), "l"(token) : "memory");
    out[threadIdx.x] = buffer[127 - threadIdx.x] + pending;
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(bar) : "memory");
}
