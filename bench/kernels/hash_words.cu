// kernel-test 1
// about: hashes of streams of words: rotations, products, exclusive or
// kernel: hash_words
// grid: 528 1 1
// block: 256 1 1
// param x: u32[1048576] = random:25
// param y: u32[135168] = zero
// param rounds: u32 = 40
// expect y: exact = ?*135168

// oriole: arch=compute_80
extern "C" __global__ void hash_words(const unsigned *x, unsigned *y, unsigned rounds)
{
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, hash = thread;
    auto turn = [](unsigned v, int by) { return v << by | v >> (32 - by); };
    for (unsigned i = 0; i < rounds; i++) {
        unsigned word = x[(thread + i * 4099) & 1048575];
        word *= 0xcc9e2d51u;
        word = turn(word, 15) * 0x1b873593u;
        hash = turn(hash ^ word, 13) * 5 + 0xe6546b64u;
    }
    hash ^= hash >> 16; hash *= 0x85ebca6bu; hash ^= hash >> 13; hash *= 0xc2b2ae35u; hash ^= hash >> 16;
    y[thread] = hash;
}
