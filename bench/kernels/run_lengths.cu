// kernel-test 1
// about: compresses runs of equal bytes: flags, prefix sums, and lengths
// kernel: run_lengths
// grid: 1024 1 1
// block: 256 1 1
// param x: u8[1048576] = random:225
// param values: u8[1048576] = zero
// param lengths: u32[1048576] = zero
// param counts: u32[1024] = zero
// expect values: exact = ?*1048576
// expect lengths: exact = ?*1048576
// expect counts: exact = ?*1024

// oriole: arch=compute_80
// A block compresses 1024 bytes; only two bits of each byte count, so that runs occur.
extern "C" __global__ void run_lengths(const uchar4 *x, unsigned char *values, unsigned *lengths, unsigned *counts)
{
    __shared__ unsigned char bytes[1024];
    __shared__ unsigned short starts[1025];
    __shared__ unsigned warps[8];
    unsigned thread = threadIdx.x, lane = thread % 32, base = blockIdx.x * 1024;
    uchar4 four = x[blockIdx.x * 256 + thread];
    unsigned char own[4] = {(unsigned char)(four.x >> 6), (unsigned char)(four.y >> 6), (unsigned char)(four.z >> 6), (unsigned char)(four.w >> 6)};
    for (int i = 0; i < 4; i++)
        bytes[thread * 4 + i] = own[i];
    __syncthreads();
    unsigned flags = thread == 0 || bytes[thread * 4 - 1] != own[0];
    for (int i = 1; i < 4; i++)
        flags |= (own[i] != own[i - 1]) << i;
    unsigned sum = __popc(flags);
    for (int step = 1; step < 32; step *= 2) {
        unsigned other = __shfl_up_sync(~0u, sum, step);
        if (lane >= step)
            sum += other;
    }
    if (lane == 31)
        warps[thread / 32] = sum;
    __syncthreads();
    unsigned total = 0, place = sum - __popc(flags);
    for (int i = 0; i < 8; i++) {
        if (i < thread / 32)
            place += warps[i];
        total += warps[i];
    }
    for (int i = 0; i < 4; i++)
        if (flags >> i & 1)
            starts[place++] = thread * 4 + i;
    if (thread == 0) {
        starts[total] = 1024;
        counts[blockIdx.x] = total;
    }
    __syncthreads();
    for (unsigned i = thread; i < total; i += 256) {
        values[base + i] = bytes[starts[i]];
        lengths[base + i] = starts[i + 1] - starts[i];
    }
}
