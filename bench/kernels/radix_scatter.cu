// kernel-test 1
// about: moves words to their places by a digit of four bits, stable, with matches inside warps
// kernel: radix_scatter
// grid: 1024 1 1
// block: 256 1 1
// param keys: u32[1048576] = random:159
// param out: u32[1048576] = zero
// param shift: u32 = 4
// expect out: exact = ?*1048576

// oriole: arch=compute_80
// Each block sorts 1024 words of its own.
extern "C" __global__ void radix_scatter(const unsigned *keys, unsigned *out, unsigned shift)
{
    __shared__ unsigned counts[16][32], starts[512];
    unsigned thread = threadIdx.x, lane = thread % 32, warp = thread / 32, key[4], rank[4];
    // counts[digit][i * 8 + warp]: in the order of the keys.
#pragma unroll
    for (int i = 0; i < 4; i++) {
        key[i] = keys[blockIdx.x * 1024 + i * 256 + thread];
        unsigned digit = key[i] >> shift & 15, same = ~0u;
#pragma unroll
        for (int bit = 0; bit < 4; bit++) {
            unsigned votes = __ballot_sync(~0u, digit >> bit & 1);
            same &= digit >> bit & 1 ? votes : ~votes;
        }
        rank[i] = __popc(same & ((1u << lane) - 1));
        if (lane < 16)
            counts[lane][i * 8 + warp] = 0;
        __syncwarp();
        if (rank[i] == 0)
            counts[digit][i * 8 + warp] = __popc(same);
    }
    __syncthreads();
    // Prefix sums over 512 counts, two for each thread.
    unsigned *all = &counts[0][0], a = all[thread * 2], b = all[thread * 2 + 1], sum = a + b;
    __shared__ unsigned warps[8];
    for (int step = 1; step < 32; step *= 2) {
        unsigned other = __shfl_up_sync(~0u, sum, step);
        if (lane >= step)
            sum += other;
    }
    if (lane == 31)
        warps[warp] = sum;
    __syncthreads();
    for (int i = 0; i < warp; i++)
        sum += warps[i];
    starts[thread * 2] = sum - a - b;
    starts[thread * 2 + 1] = sum - b;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; i++)
        out[blockIdx.x * 1024 + starts[(key[i] >> shift & 15) * 32 + i * 8 + warp] + rank[i]] = key[i];
}
