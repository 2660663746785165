// The ChaCha20 stream cipher: a block of the key stream for each thread, and the test vector of RFC 8439.
#include "../timing.h"

__host__ __device__ inline uint32_t rotate(uint32_t v, int by) { return v << by | v >> (32 - by); }

__host__ __device__ inline void quarter(uint32_t &a, uint32_t &b, uint32_t &c, uint32_t &d)
{
    a += b; d = rotate(d ^ a, 16);
    c += d; b = rotate(b ^ c, 12);
    a += b; d = rotate(d ^ a, 8);
    c += d; b = rotate(b ^ c, 7);
}

struct Key {
    uint32_t key[8], nonce[3];
};

__host__ __device__ inline void block(const Key &key, uint32_t counter, uint32_t *out)
{
    uint32_t s[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, key.key[0], key.key[1], key.key[2], key.key[3], key.key[4], key.key[5],
        key.key[6], key.key[7], counter, key.nonce[0], key.nonce[1], key.nonce[2]}, t[16];
    for (int i = 0; i < 16; i++)
        t[i] = s[i];
#pragma unroll
    for (int round = 0; round < 10; round++) {
        quarter(t[0], t[4], t[8], t[12]);
        quarter(t[1], t[5], t[9], t[13]);
        quarter(t[2], t[6], t[10], t[14]);
        quarter(t[3], t[7], t[11], t[15]);
        quarter(t[0], t[5], t[10], t[15]);
        quarter(t[1], t[6], t[11], t[12]);
        quarter(t[2], t[7], t[8], t[13]);
        quarter(t[3], t[4], t[9], t[14]);
    }
    for (int i = 0; i < 16; i++)
        out[i] = s[i] + t[i];
}

// The key is a parameter by value.
__global__ void encrypt(Key key, uint32_t counter, const uint4 *in, uint4 *out, int blocks)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= blocks)
        return;
    uint32_t stream[16];
    block(key, counter + at, stream);
    for (int i = 0; i < 4; i++) {
        uint4 v = in[at * 4 + i];
        out[at * 4 + i] = make_uint4(v.x ^ stream[i * 4], v.y ^ stream[i * 4 + 1], v.z ^ stream[i * 4 + 2], v.w ^ stream[i * 4 + 3]);
    }
}

int main()
{
    const int blocks = 1 << 16;
    Key key;
    for (int i = 0; i < 8; i++)
        key.key[i] = 0x03020100 + 0x04040404 * i;
    key.nonce[0] = 0x09000000, key.nonce[1] = 0x4a000000, key.nonce[2] = 0;
    // RFC 8439, section 2.3.2: the first word for counter 1.
    uint32_t first[16];
    block(key, 1, first);
    suite::equal("RFC 8439", first[0], 0xe4e7f110u);
    auto text = suite::words(blocks * 16, 81), expected = text;
    for (int i = 0; i < blocks; i++) {
        uint32_t stream[16];
        block(key, 1 + i, stream);
        for (int j = 0; j < 16; j++)
            expected[i * 16 + j] ^= stream[j];
    }
    suite::Device<uint32_t> in(text), out(blocks * 16), back(blocks * 16);
    auto launch = [&] { encrypt<<<blocks / 128, 128>>>(key, 1, (const uint4 *)in.data(), (uint4 *)out.data(), blocks); };
    launch();
    suite::equal("encrypted", out.host(), expected);
    encrypt<<<blocks / 128, 128>>>(key, 1, (const uint4 *)out.data(), (uint4 *)back.data(), blocks);
    suite::equal("decrypted", back.host(), text);
    suite::timed("encrypt", launch);
    return suite::finish();
}
