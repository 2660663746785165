// SHA-256 of many short messages, with the constants in constant memory; the digests of known messages are checked, too.
#include "../timing.h"

static const uint32_t CONSTANTS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

__constant__ uint32_t device_constants[64];

__host__ __device__ inline uint32_t rotate(uint32_t v, int by) { return v >> by | v << (32 - by); }

__host__ __device__ inline void compress(uint32_t *state, const uint32_t *block, const uint32_t *constants)
{
    uint32_t w[16], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = block[i];
    for (int i = 0; i < 8; i++)
        s[i] = state[i];
#pragma unroll 16
    for (int i = 0; i < 64; i++) {
        if (i >= 16) {
            uint32_t p = w[(i + 1) & 15], q = w[(i + 14) & 15];
            w[i & 15] += (rotate(p, 7) ^ rotate(p, 18) ^ p >> 3) + w[(i + 9) & 15] + (rotate(q, 17) ^ rotate(q, 19) ^ q >> 10);
        }
        uint32_t e = s[4], a = s[0];
        uint32_t one = s[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & s[5]) ^ (~e & s[6])) + constants[i] + w[i & 15];
        uint32_t two = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        s[7] = s[6], s[6] = s[5], s[5] = e, s[4] = s[3] + one, s[3] = s[2], s[2] = s[1], s[1] = a, s[0] = one + two;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

// Hashes a message of `length` bytes below 56 that begins at `words`, most significant byte first.
__host__ __device__ inline void digest(const uint32_t *words, uint32_t length, uint32_t *state, const uint32_t *constants)
{
    const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint32_t block[16];
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t word = i * 4 < length ? words[i] : 0, left = length - i * 4;
        if (i * 4 <= length && left < 4)
            word = (left ? word & ~0u << (32 - 8 * left) : 0) | 0x80000000u >> 8 * left;
        block[i] = i == 15 ? length * 8 : word;
    }
    for (int i = 0; i < 8; i++)
        state[i] = initial[i];
    compress(state, block, constants);
}

__global__ void hash_messages(const uint32_t *messages, const uint32_t *lengths, uint32_t *digests, int count)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count)
        return;
    uint32_t state[8];
    digest(messages + at * 16, lengths[at], state, device_constants);
    for (int i = 0; i < 8; i++)
        digests[at * 8 + i] = state[i];
}

int main()
{
    const int count = 1 << 16;
    auto messages = suite::words(count * 16, 5);
    std::vector<uint32_t> lengths(count), expected(count * 8);
    for (int i = 0; i < count; i++)
        lengths[i] = i % 56;
    // "abc" is the first message; its digest is in FIPS 180.
    messages[0] = 0x61626300;
    lengths[0] = 3;
    for (int i = 0; i < count; i++)
        digest(&messages[i * 16], lengths[i], &expected[i * 8], CONSTANTS);
    CHECK(cudaMemcpyToSymbol(device_constants, CONSTANTS, sizeof CONSTANTS));
    suite::Device<uint32_t> in(messages), sizes(lengths), out(count * 8);
    auto launch = [&] { hash_messages<<<count / 128, 128>>>(in, sizes, out, count); };
    launch();
    auto got = out.host();
    suite::equal("digests", got, expected);
    suite::equal("abc", got[0], 0xba7816bfu);
    suite::timed("hash_messages", launch);
    return suite::finish();
}
