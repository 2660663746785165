// Sorting: a bitonic sort in dynamic shared memory, one radix-sort pass with ballots, a merge of two runs.
// oriole: arch=compute_80

extern "C" __global__ void bitonic_shared(unsigned long long* data, int n) {
    extern __shared__ unsigned long long keys[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) keys[i] = data[blockIdx.x * n + i];
    for (int k = 2; k <= n; k <<= 1)
        for (int j = k >> 1; j; j >>= 1) {
            __syncthreads();
            for (int i = threadIdx.x; i < n; i += blockDim.x) {
                int p = i ^ j;
                if (p > i && (keys[i] > keys[p]) == !(i & k)) {
                    unsigned long long t = keys[i];
                    keys[i] = keys[p];
                    keys[p] = t;
                }
            }
        }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[blockIdx.x * n + i] = keys[i];
}

extern "C" __global__ void radix_split(const unsigned* in, unsigned* out, int shift) {
    __shared__ unsigned warp_zeros[32];
    unsigned key = in[blockIdx.x * blockDim.x + threadIdx.x], lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    bool one = key >> shift & 1;
    unsigned zeros = __ballot_sync(~0u, !one), before = __popc(zeros & ((1u << lane) - 1));
    if (lane == 0) warp_zeros[warp] = __popc(zeros);
    __syncthreads();
    unsigned offset = 0, total = 0;
    for (unsigned w = 0; w < blockDim.x / 32; ++w) { if (w < warp) offset += warp_zeros[w]; total += warp_zeros[w]; }
    unsigned zero_rank = offset + before;
    unsigned rank = one ? total + threadIdx.x - zero_rank : zero_rank;
    out[blockIdx.x * blockDim.x + rank] = key;
}

extern "C" __global__ void merge_runs(const short* a, int na, const short* b, int nb, short* out) {
    int diagonal = blockIdx.x * blockDim.x + threadIdx.x;
    if (diagonal >= na + nb) return;
    int low = max(0, diagonal - nb), high = min(diagonal, na);
    while (low < high) {
        int middle = (low + high) >> 1;
        if (a[middle] <= b[diagonal - 1 - middle]) low = middle + 1; else high = middle;
    }
    int i = low, j = diagonal - low;
    out[diagonal] = j >= nb || (i < na && a[i] <= b[j]) ? a[i] : b[j];
}
