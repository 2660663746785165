// kernel-test 1
// about: a random walk of each thread over a table, which caches cannot foresee
// kernel: random_walk
// grid: 264 1 1
// block: 256 1 1
// param table: u32[1048576] = random:38
// param out: u32[67584] = zero
// param steps: u32 = 40
// expect out: exact = ?*67584

// oriole: arch=compute_80
extern "C" __global__ void random_walk(const unsigned *table, unsigned *out, unsigned steps)
{
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, at = thread * 2654435761u, sum = 0;
    for (unsigned i = 0; i < steps; i++) {
        unsigned word = table[at >> 12];
        sum += word;
        if (word & 1)
            at = at * 1664525 + word;
        else
            at ^= word << 3 | sum >> 29;
    }
    out[thread] = sum;
}
