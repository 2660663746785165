// kernel-test 1
// about: pi by random points, xorshift in each thread
// kernel: monte_carlo
// grid: 264 1 1
// block: 256 1 1
// param out: u32[67584] = zero
// param rounds: u32 = 200
// expect out: exact = ?*67584

// oriole: arch=compute_80
extern "C" __global__ void monte_carlo(unsigned *out, unsigned rounds)
{
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, hits = 0;
    unsigned long long state = thread * 0x9e3779b97f4a7c15ull + 1;
    for (unsigned i = 0; i < rounds; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        float x = (unsigned)state * 2.3283064e-10f, y = (unsigned)(state >> 32) * 2.3283064e-10f;
        hits += x * x + y * y < 1.0f;
    }
    out[thread] = hits;
}
