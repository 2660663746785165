// kernel-test 1
// about: numbers of 11 bits out of a stream of words, and sums of their differences
// kernel: bit_unpack
// grid: 1024 1 1
// block: 128 1 1
// param packed: u32[1441792] = random:226
// param out: u32[4194304] = zero
// expect out: exact = ?*4194304

// oriole: arch=compute_80
// A warp unpacks blocks of 1024 numbers; each lane has 32 of them in 11 words.
extern "C" __global__ void bit_unpack(const unsigned *packed, unsigned *out)
{
    unsigned warp = (blockIdx.x * 128 + threadIdx.x) / 32, lane = threadIdx.x % 32, carry = 0;
    const unsigned *words = packed + warp * 352;
    unsigned word = words[lane];
#pragma unroll
    for (int i = 0; i < 32; i++) {
        int bit = i * 11, at = bit % 32;
        unsigned value = word >> at;
        if (at + 11 >= 32 && i < 31) {
            word = words[(bit / 32 + 1) * 32 + lane];
            if (at + 11 > 32)
                value |= word << (32 - at);
        }
        value &= 2047;
        // Zigzag differences along the lane.
        carry += (value >> 1) ^ (0 - (value & 1));
        out[warp * 1024 + i * 32 + lane] = carry;
    }
}
