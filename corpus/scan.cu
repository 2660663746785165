// Prefix sums: Hillis-Steele over shuffles (with the predicate form of shfl) and Blelloch in dynamic shared memory.
// oriole: arch=compute_80

extern "C" __global__ void warp_inclusive_scan(const int* in, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int x = in[i];
    asm volatile(
        "{\n\t"
        ".reg .pred p;\n\t"
        ".reg .s32 t;\n\t"
        "shfl.sync.up.b32 t|p, %0, 1, 0, -1;\n\t@p add.s32 %0, %0, t;\n\t"
        "shfl.sync.up.b32 t|p, %0, 2, 0, -1;\n\t@p add.s32 %0, %0, t;\n\t"
        "shfl.sync.up.b32 t|p, %0, 4, 0, -1;\n\t@p add.s32 %0, %0, t;\n\t"
        "shfl.sync.up.b32 t|p, %0, 8, 0, -1;\n\t@p add.s32 %0, %0, t;\n\t"
        "shfl.sync.up.b32 t|p, %0, 16, 0, -1;\n\t@p add.s32 %0, %0, t;\n\t"
        "}"
        : "+r"(x));
    out[i] = x;
}

extern "C" __global__ void blelloch_exclusive_scan(float* data, int n) {
    extern __shared__ float tree[];
    int tid = threadIdx.x;
    tree[2 * tid] = 2 * tid < n ? data[2 * tid] : 0.0f;
    tree[2 * tid + 1] = 2 * tid + 1 < n ? data[2 * tid + 1] : 0.0f;
    int offset = 1, width = 2 * blockDim.x;
    for (int d = width >> 1; d > 0; d >>= 1, offset *= 2) {
        __syncthreads();
        if (tid < d) tree[offset * (2 * tid + 2) - 1] += tree[offset * (2 * tid + 1) - 1];
    }
    if (tid == 0) tree[width - 1] = 0.0f;
    for (int d = 1; d < width; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (tid < d) {
            int left = offset * (2 * tid + 1) - 1, right = offset * (2 * tid + 2) - 1;
            float t = tree[left];
            tree[left] = tree[right];
            tree[right] += t;
        }
    }
    __syncthreads();
    if (2 * tid < n) data[2 * tid] = tree[2 * tid];
    if (2 * tid + 1 < n) data[2 * tid + 1] = tree[2 * tid + 1];
}
