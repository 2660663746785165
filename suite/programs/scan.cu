// Exclusive and inclusive prefix sums: shuffles in warps, dynamic shared memory in blocks, and a second level of blocks.
#include "../timing.h"

extern __shared__ uint32_t scratch[];

__device__ uint32_t scan_warp(uint32_t value)
{
    for (int step = 1; step < 32; step *= 2) {
        uint32_t other = __shfl_up_sync(~0u, value, step);
        if (threadIdx.x % 32 >= step)
            value += other;
    }
    return value;
}

// The inclusive sum over the block; `scratch` has a word for each warp.
__device__ uint32_t scan_block(uint32_t value)
{
    uint32_t sum = scan_warp(value), warp = threadIdx.x / 32, warps = blockDim.x / 32;
    if (threadIdx.x % 32 == 31)
        scratch[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        uint32_t part = scan_warp(threadIdx.x < warps ? scratch[threadIdx.x] : 0);
        if (threadIdx.x < warps)
            scratch[threadIdx.x] = part;
    }
    __syncthreads();
    if (warp)
        sum += scratch[warp - 1];
    __syncthreads();
    return sum;
}

template <bool EXCLUSIVE> __global__ void scan(const uint32_t *x, uint32_t *y, uint32_t *totals, int n)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t own = at < n ? x[at] : 0, sum = scan_block(own);
    if (at < n)
        y[at] = EXCLUSIVE ? sum - own : sum;
    if (totals && threadIdx.x == blockDim.x - 1)
        totals[blockIdx.x] = sum;
}

__global__ void add(uint32_t *y, const uint32_t *starts, int n)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n)
        y[at] += starts[blockIdx.x];
}

// Doubling steps with two buffers in shared memory (Hillis and Steele).
__global__ void scan_plain(const uint32_t *x, uint32_t *y)
{
    uint32_t *from = scratch, *to = scratch + blockDim.x, at = blockIdx.x * blockDim.x + threadIdx.x;
    from[threadIdx.x] = x[at];
    __syncthreads();
    for (uint32_t step = 1; step < blockDim.x; step *= 2) {
        to[threadIdx.x] = from[threadIdx.x] + (threadIdx.x >= step ? from[threadIdx.x - step] : 0);
        __syncthreads();
        uint32_t *other = from;
        from = to;
        to = other;
    }
    y[at] = from[threadIdx.x];
}

int main()
{
    const int n = 1 << 20, block = 1024, blocks = n / block;
    auto x = suite::words(n, 41);
    std::vector<uint32_t> inclusive(n), exclusive(n), plain(n);
    uint32_t sum = 0, local = 0;
    for (int i = 0; i < n; i++) {
        local = i % block ? local + x[i] : x[i];
        exclusive[i] = sum;
        inclusive[i] = sum += x[i];
        plain[i] = local;
    }
    suite::Device<uint32_t> in(x), out(n), totals(blocks);
    auto run = [&](bool is_exclusive) {
        if (is_exclusive)
            scan<true><<<blocks, block, 128>>>(in, out, totals, n);
        else
            scan<false><<<blocks, block, 128>>>(in, out, totals, n);
        scan<true><<<1, block, 128>>>(totals, totals, nullptr, blocks);
        add<<<blocks, block>>>(out, totals, n);
    };
    run(true);
    suite::equal("exclusive", out.host(), exclusive);
    run(false);
    suite::equal("inclusive", out.host(), inclusive);
    auto doubling = [&] { scan_plain<<<blocks, block, 2 * block * 4>>>(in, out); };
    doubling();
    suite::equal("blocks", out.host(), plain);
    suite::timed("levels", [&] { run(true); });
    suite::timed("doubling", doubling);
    return suite::finish();
}
