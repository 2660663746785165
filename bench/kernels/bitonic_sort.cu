// kernel-test 1
// about: sorts blocks of 1024 words in shared memory
// kernel: bitonic_sort
// grid: 512 1 1
// block: 512 1 1
// param x: u32[524288] = random:27
// param y: u32[524288] = zero
// expect y: exact = ?*524288

// oriole: arch=compute_80
extern "C" __global__ void bitonic_sort(const unsigned *x, unsigned *y)
{
    __shared__ unsigned words[1024];
    unsigned thread = threadIdx.x, start = blockIdx.x * 1024;
    words[thread] = x[start + thread];
    words[thread + 512] = x[start + thread + 512];
    for (unsigned size = 2; size <= 1024; size *= 2)
        for (unsigned step = size / 2; step; step /= 2) {
            __syncthreads();
            unsigned low = 2 * thread - (thread & (step - 1)), high = low + step;
            unsigned a = words[low], b = words[high];
            if ((a > b) == ((low & size) == 0)) {
                words[low] = b;
                words[high] = a;
            }
        }
    __syncthreads();
    y[start + thread] = words[thread];
    y[start + thread + 512] = words[thread + 512];
}
