// kernel-test 1
// about: a level of breadth-first search: nodes of the frontier mark their neighbours
// kernel: bfs_sweep
// grid: 1024 1 1
// block: 256 1 1
// param edges: u32[2097152] = random:130
// param levels: u32[262144] = random:131
// param marks: u32[262144] = zero
// param level: u32 = 3
// expect marks: exact = ?*262144

// oriole: arch=compute_80
// Eight edges for each node; the level of a node is in the lowest three bits.
extern "C" __global__ void bfs_sweep(const unsigned *edges, const unsigned *levels, unsigned *marks, unsigned level)
{
    unsigned node = blockIdx.x * 256 + threadIdx.x, n = 262144;
    if ((levels[node] & 7) != level)
        return;
    unsigned degree = levels[node] >> 8 & 7;
    for (unsigned i = 0; i <= degree; i++) {
        unsigned target = edges[node * 8 + i] & (n - 1);
        if ((levels[target] & 7) > level)
            marks[target] = level + 1;
    }
}
