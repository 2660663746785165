// kernel-test 1
// about: each thread counts 256 random numbers in 16 bins
// kernel: histogram
// grid: 2112 1 1
// block: 128 1 1
// param seeds: u32[270336] = random:8
// param counts: u32[4325376] = zero
// expect counts: exact = ?*4325376

// oriole: arch=compute_80 options="-lineinfo"
extern "C" __global__ void histogram(const unsigned *seeds, unsigned *counts)
{
    const unsigned threads = 2112 * 128;
    unsigned i = blockIdx.x * 128 + threadIdx.x;
    unsigned bins[16];
    for (int j = 0; j < 16; j++)
        bins[j] = 0;
    unsigned state = seeds[i];
    #pragma unroll 4
    for (int k = 0; k < 256; k++) {
        state = state * 1664525 + 1013904223;
        unsigned j = state >> 28;
        bins[j]++;
    }
    for (int j = 0; j < 16; j++)
        counts[j * threads + i] = bins[j];
}
