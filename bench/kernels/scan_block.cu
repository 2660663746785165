// kernel-test 1
// about: prefix sums of blocks of 2048
// kernel: scan_block
// grid: 1024 1 1
// block: 256 1 1
// param x: u32[2097152] = random:12
// param y: u32[2097152] = zero
// param totals: u32[1024] = zero
// expect y: exact = ?*2097152
// expect totals: exact = ?*1024

// oriole: arch=compute_80
extern "C" __global__ void scan_block(const uint4 *x, uint4 *y, unsigned *totals)
{
    __shared__ unsigned warps[8];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, at = (blockIdx.x * 256 + threadIdx.x) * 2;
    uint4 a = x[at], b = x[at + 1];
    a.y += a.x; a.z += a.y; a.w += a.z;
    b.x += a.w; b.y += b.x; b.z += b.y; b.w += b.z;
    unsigned sum = b.w;
    for (int step = 1; step < 32; step *= 2) {
        unsigned other = __shfl_up_sync(~0u, sum, step);
        if (lane >= step)
            sum += other;
    }
    if (lane == 31)
        warps[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        unsigned part = lane < 8 ? warps[lane] : 0;
        for (int step = 1; step < 8; step *= 2) {
            unsigned other = __shfl_up_sync(~0u, part, step);
            if (lane >= step)
                part += other;
        }
        if (lane < 8)
            warps[lane] = part;
    }
    __syncthreads();
    unsigned before = sum - b.w + (warp ? warps[warp - 1] : 0);
    a.x += before; a.y += before; a.z += before; a.w += before;
    b.x += before; b.y += before; b.z += before; b.w += before;
    y[at] = a;
    y[at + 1] = b;
    if (threadIdx.x == 255)
        totals[blockIdx.x] = b.w;
}
