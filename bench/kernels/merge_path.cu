// kernel-test 1
// about: merges two sorted lists of 1024 words for each block: binary search along diagonals, then eight steps for each thread
// kernel: merge_path
// grid: 256 1 1
// block: 256 1 1
// param steps: u8[524288] = random:160
// param out: u32[524288] = zero
// expect out: exact = ?*524288

// oriole: arch=compute_80
extern "C" __global__ void merge_path(const unsigned char *steps, unsigned *out)
{
    __shared__ unsigned list[2][1024];
    // Sorted lists: sums of random steps.
    unsigned thread = threadIdx.x, side = thread / 128, first = thread % 128 * 8, lane = thread % 32, sum = 0, own[8];
    __shared__ unsigned warps[8];
    for (int i = 0; i < 8; i++)
        own[i] = sum += steps[blockIdx.x * 2048 + side * 1024 + first + i];
    unsigned total = sum;
    for (int step = 1; step < 32; step *= 2) {
        unsigned other = __shfl_up_sync(~0u, total, step);
        if (lane >= step)
            total += other;
    }
    if (lane == 31)
        warps[thread / 32] = total;
    __syncthreads();
    unsigned before = total - sum;
    for (unsigned i = side * 4; i < thread / 32; i++)
        before += warps[i];
    for (int i = 0; i < 8; i++)
        list[side][first + i] = before + own[i];
    __syncthreads();
    int diagonal = thread * 8, low = max(0, diagonal - 1024), high = min(diagonal, 1024);
    while (low < high) {
        int middle = (low + high) / 2;
        if (list[0][middle] <= list[1][diagonal - 1 - middle])
            low = middle + 1;
        else
            high = middle;
    }
    int a = low, b = diagonal - low;
    for (int i = 0; i < 8; i++) {
        bool left = b >= 1024 || (a < 1024 && list[0][a] <= list[1][b]);
        out[blockIdx.x * 2048 + diagonal + i] = left ? list[0][a++] : list[1][b++];
    }
}
