// kernel-test 1
// about: a phase of shortest paths between all pairs: tiles of 32 by 32 in shared memory
// kernel: floyd_warshall_tile
// grid: 16 16 1
// block: 32 32 1
// param distances: u32[262144] = random:224
// param out: u32[262144] = zero
// param pivot: u32 = 3
// expect out: exact = ?*262144

// oriole: arch=compute_80
extern "C" __global__ void floyd_warshall_tile(const unsigned *distances, unsigned *out, unsigned pivot)
{
    __shared__ unsigned row[32][32], column[32][33];
    unsigned x = threadIdx.x, y = threadIdx.y, i = blockIdx.y * 32 + y, j = blockIdx.x * 32 + x;
    row[y][x] = distances[(pivot * 32 + y) * 512 + j] >> 4;
    column[y][x] = distances[i * 512 + pivot * 32 + x] >> 4;
    unsigned best = distances[i * 512 + j] >> 4;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 32; k++)
        best = min(best, column[y][k] + row[k][x]);
    out[i * 512 + j] = best;
}
