// Synchronisation by hand: named barriers, barrier reductions, fences, a grid barrier, producer and consumer flags.
// oriole: arch=compute_80

extern "C" __global__ void barrier_reductions(const int* in, int* out) {
    int v = in[threadIdx.x];
    int count = __syncthreads_count(v > 0), all = __syncthreads_and(v), any = __syncthreads_or(v < 0);
    if (threadIdx.x == 0) { out[0] = count; out[1] = all; out[2] = any; }
}

extern "C" __global__ void named_barriers(float* data) {
    __shared__ float box[128];
    int t = threadIdx.x;
    if (t < 64) {
        box[t] = data[t];
        asm volatile("bar.arrive 1, 128;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 128;" ::: "memory");
        data[t] = box[t - 64];
    }
    asm volatile("barrier.sync.aligned 2, %0;" ::"r"(blockDim.x) : "memory");
    asm volatile("barrier.cta.sync 3;" ::: "memory");
    data[t] += 1;
}

// All blocks meet: the last one to arrive flips a generation counter the others spin on.
extern "C" __global__ void grid_barrier(unsigned* arrived, volatile unsigned* generation, float* data, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] *= 2;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned mine = *generation;
        if (atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1) *generation = mine + 1;
        else while (*generation == mine) __nanosleep(20);
        __threadfence_system();
    }
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] += data[n - 1 - i];
    __threadfence_block();
}

// Acquire and release spelled out, in three scopes.
extern "C" __global__ void message_passing(int* flag, int* payload, unsigned long long* wide, int* out) {
    int v, old;
    unsigned long long w;
    if (blockIdx.x == 0) {
        payload[threadIdx.x] = threadIdx.x;
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
        asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(flag), "r"(1) : "memory");
        asm volatile("red.release.gpu.global.add.s32 [%0], %1;" ::"l"(flag + 1), "r"(1) : "memory");
    } else {
        do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory");
        while (v == 0);
        out[threadIdx.x] = payload[threadIdx.x];
    }
    asm volatile("atom.acq_rel.sys.global.cas.b32 %0, [%1], %2, %3;" : "=r"(old) : "l"(flag + 2), "r"(0), "r"(1) : "memory");
    asm volatile("atom.relaxed.cta.global.exch.b64 %0, [%1], %2;" : "=l"(w) : "l"(wide), "l"(5ull) : "memory");
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(w) : "l"(wide) : "memory");
    asm volatile("fence.sc.sys;" ::: "memory");
    asm volatile("membar.gl;" ::: "memory");
    out[threadIdx.x + 64] = old + (int)w;
}
