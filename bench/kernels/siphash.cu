// kernel-test 1
// about: SipHash-2-4 of messages of 64 bytes
// kernel: siphash
// grid: 1024 1 1
// block: 128 1 1
// param input: u64[1048576] = random:116
// param hashes: u64[131072] = zero
// param k0: u64 = 0706050403020100
// param k1: u64 = 0f0e0d0c0b0a0908
// expect hashes: exact = ?*131072

// oriole: arch=compute_80
typedef unsigned long long Word;

__device__ Word rotate(Word v, int by) { return v << by | v >> (64 - by); }

__device__ void sip(Word &a, Word &b, Word &c, Word &d)
{
    a += b; b = rotate(b, 13) ^ a; a = rotate(a, 32);
    c += d; d = rotate(d, 16) ^ c;
    a += d; d = rotate(d, 21) ^ a;
    c += b; b = rotate(b, 17) ^ c; c = rotate(c, 32);
}

extern "C" __global__ void siphash(const Word *input, Word *hashes, Word k0, Word k1)
{
    unsigned at = blockIdx.x * 128 + threadIdx.x;
    Word a = k0 ^ 0x736f6d6570736575ull, b = k1 ^ 0x646f72616e646f6dull, c = k0 ^ 0x6c7967656e657261ull, d = k1 ^ 0x7465646279746573ull;
    for (int i = 0; i <= 8; i++) {
        Word m = i < 8 ? input[at * 8 + i] : 64ull << 56;
        d ^= m;
        sip(a, b, c, d);
        sip(a, b, c, d);
        a ^= m;
    }
    c ^= 255;
    for (int i = 0; i < 4; i++)
        sip(a, b, c, d);
    hashes[at] = a ^ b ^ c ^ d;
}
