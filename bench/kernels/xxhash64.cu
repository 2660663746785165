// kernel-test 1
// about: XXH64 of inputs of 96 bytes: 64-bit products and rotations
// kernel: xxhash64
// grid: 1024 1 1
// block: 128 1 1
// param input: u64[1572864] = random:114
// param hashes: u64[131072] = zero
// expect hashes: exact = ?*131072

// oriole: arch=compute_80
typedef unsigned long long Word;

__device__ Word rotate(Word v, int by) { return v << by | v >> (64 - by); }
__device__ Word mix(Word sum, Word in) { return rotate(sum + in * 0xc2b2ae3d27d4eb4full, 31) * 0x9e3779b185ebca87ull; }

extern "C" __global__ void xxhash64(const Word *input, Word *hashes)
{
    unsigned at = blockIdx.x * 128 + threadIdx.x;
    const Word p1 = 0x9e3779b185ebca87ull, p2 = 0xc2b2ae3d27d4eb4full, p3 = 0x165667b19e3779f9ull, p4 = 0x85ebca77c2b2ae63ull;
    Word s[4] = {p1 + p2, p2, 0, 0 - p1};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++)
            s[j] = mix(s[j], input[at * 12 + i * 4 + j]);
    Word h = rotate(s[0], 1) + rotate(s[1], 7) + rotate(s[2], 12) + rotate(s[3], 18);
    for (int j = 0; j < 4; j++)
        h = (h ^ mix(0, s[j])) * p1 + p4;
    h += 96;
    h = (h ^ h >> 33) * p2;
    h = (h ^ h >> 29) * p3;
    hashes[at] = h ^ h >> 32;
}
