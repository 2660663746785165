// kernel-test 1
// about: relaxes all edges of a graph with atomicMin
// kernel: sssp_relax
// grid: 2048 1 1
// block: 256 1 1
// param from: u32[524288] = random:132
// param to: u32[524288] = random:133
// param lengths: u32[524288] = random:134
// param distances: u32[65536] = random:135
// param out: u32[65536] = zero
// expect out: exact = ?*65536

// oriole: arch=compute_80
// `out` counts down from the largest distance, so that it may begin with zeros.
extern "C" __global__ void sssp_relax(const unsigned *from, const unsigned *to, const unsigned *lengths, const unsigned *distances, unsigned *out)
{
    unsigned edge = blockIdx.x * 256 + threadIdx.x;
    unsigned start = distances[from[edge] & 65535] >> 4, end = to[edge] & 65535;
    if (start == 0x0fffffff)
        return;
    unsigned through = start + (lengths[edge] >> 8);
    if (through < distances[end] >> 4)
        atomicMax(&out[end], ~through);
}
