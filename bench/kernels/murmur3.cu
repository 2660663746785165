// kernel-test 1
// about: MurmurHash3 of keys of 16 words
// kernel: murmur3
// grid: 1024 1 1
// block: 128 1 1
// param keys: u32[2097152] = random:113
// param hashes: u32[131072] = zero
// expect hashes: exact = ?*131072

// oriole: arch=compute_80
__device__ unsigned rotate(unsigned v, int by) { return v << by | v >> (32 - by); }

extern "C" __global__ void murmur3(const uint4 *keys, unsigned *hashes)
{
    unsigned at = blockIdx.x * 128 + threadIdx.x, h = 0x9747b28c;
    for (int i = 0; i < 4; i++) {
        uint4 four = keys[at * 4 + i];
        unsigned words[4] = {four.x, four.y, four.z, four.w};
        for (int j = 0; j < 4; j++) {
            h ^= rotate(words[j] * 0xcc9e2d51u, 15) * 0x1b873593u;
            h = rotate(h, 13) * 5 + 0xe6546b64u;
        }
    }
    h ^= 64;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    hashes[at] = h ^ h >> 16;
}
