// kernel-test 1
// about: a step of PageRank in double: a sum over neighbours by eight threads for each node
// kernel: pagerank_pull
// grid: 2048 1 1
// block: 256 1 1
// param edges: u32[2097152] = random:140
// param ranks: f64[65536] = sized:141
// param out: f64[65536] = zero
// expect out: exact = ?*65536

// oriole: arch=compute_80
extern "C" __global__ void pagerank_pull(const unsigned *edges, const double *ranks, double *out)
{
    unsigned thread = blockIdx.x * 256 + threadIdx.x, node = thread / 8, lane = thread % 8;
    unsigned degree = 4 + (node * 2654435761u >> 27) % 29;
    double sum = 0;
    for (unsigned i = lane; i < degree; i += 8) {
        unsigned source = edges[node * 32 + i] & 65535;
        sum += fabs(ranks[source]) / (4 + (source * 2654435761u >> 27) % 29);
    }
    for (int step = 4; step; step /= 2)
        sum += __shfl_down_sync(~0u, sum, step, 8);
    if (lane == 0)
        out[node] = 0.15 / 65536 + 0.85 * sum;
}
