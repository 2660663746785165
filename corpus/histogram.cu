// Histograms: shared and global atomics, byte extraction, and every integer and float atomic the language offers.
// oriole: arch=compute_80
// oriole: arch=compute_90

extern "C" __global__ void histogram_bytes(const unsigned* __restrict__ words, unsigned* bins, int n) {
    __shared__ unsigned local_bins[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) local_bins[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned w = words[i];
        atomicAdd(&local_bins[w & 255], 1u);
        atomicAdd(&local_bins[(w >> 8) & 255], 1u);
        atomicAdd(&local_bins[(w >> 16) & 255], 1u);
        atomicAdd(&local_bins[w >> 24], 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (local_bins[i]) atomicAdd(&bins[i], local_bins[i]);
}

extern "C" __global__ void atomic_zoo(int* i32, unsigned* u32, unsigned long long* u64, long long* s64, float* f32,
                                      double* f64, float2* pairs) {
    int t = threadIdx.x;
    atomicMin(&i32[0], t);
    atomicMax(&i32[1], t);
    i32[2 + t] = atomicSub(&i32[1], 3);
    atomicAnd(&u32[0], ~(1u << (t & 31)));
    atomicOr(&u32[1], 1u << (t & 31));
    atomicXor(&u32[2], t);
    u32[8 + t] = atomicInc(&u32[3], 100u) + atomicDec(&u32[4], 100u) + atomicExch(&u32[5], t);
    u32[2048 + t] = atomicCAS(&u32[6], t, t + 1);
    u64[8 + t] = atomicCAS(&u64[0], 7ull, 9ull) + atomicExch(&u64[1], 1ull) + atomicAdd(&u64[2], 5ull);
    atomicMin(&s64[0], (long long)-t);
    atomicMax(&u64[3], (unsigned long long)t);
    atomicAdd(&f32[0], 1.5f);
    f64[8 + t] = atomicAdd(&f64[0], 2.5);
    atomicAdd_block(&i32[1], 1);
    atomicAdd_system(&i32[1], 1);
    pairs[t].x = atomicExch(&pairs[0].y, 0.25f);
}

// atomicMax on float has no instruction: a compare-and-swap loop.
extern "C" __global__ void atomic_max_float(float* target, const float* in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int* bits = (int*)target;
    int seen = *bits, assumed;
    do {
        assumed = seen;
        if (__int_as_float(assumed) >= in[i]) break;
        seen = atomicCAS(bits, assumed, __float_as_int(in[i]));
    } while (seen != assumed);
}
