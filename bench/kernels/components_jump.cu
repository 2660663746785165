// kernel-test 1
// about: connected components: each node takes the smallest label of its neighbours and follows labels
// kernel: components_jump
// grid: 1024 1 1
// block: 256 1 1
// param edges: u32[1048576] = random:136
// param labels: u32[262144] = random:137
// param out: u32[262144] = zero
// expect out: exact = ?*262144

// oriole: arch=compute_80
extern "C" __global__ void components_jump(const uint4 *edges, const unsigned *labels, unsigned *out)
{
    unsigned node = blockIdx.x * 256 + threadIdx.x, mask = 262143;
    uint4 e = edges[node];
    unsigned least = min(min(labels[node] & mask, node), min(labels[e.x & mask] & mask, labels[e.y & mask] & mask));
    least = min(least, min(labels[e.z & mask] & mask, labels[e.w & mask] & mask));
    // Labels that point down, at most eight times.
    for (int i = 0; i < 8; i++) {
        unsigned next = labels[least] & mask;
        if (next >= least)
            break;
        least = next;
    }
    out[node] = least;
}
