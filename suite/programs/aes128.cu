// AES-128 in counter mode with four tables in shared memory; the key schedule is made on the CPU, and FIPS 197 has the test vector.
#include "../timing.h"

struct Tables {
    uint32_t t[4][256];
    unsigned char box[256];
};

static unsigned multiply(unsigned a, unsigned b)
{
    unsigned product = 0;
    for (; b; b >>= 1) {
        if (b & 1)
            product ^= a;
        a = a << 1 ^ (a & 128 ? 0x11b : 0);
    }
    return product;
}

static Tables make_tables()
{
    Tables tables;
    for (int i = 0; i < 256; i++) {
        unsigned inverse = 0;
        for (unsigned j = 1; i && j < 256 && !inverse; j++)
            if (multiply(i, j) == 1)
                inverse = j;
        unsigned s = inverse ^ inverse << 1 ^ inverse << 2 ^ inverse << 3 ^ inverse << 4;
        s = ((s ^ s >> 8) & 255) ^ 0x63;
        tables.box[i] = s;
        // Columns with the first byte most significant.
        uint32_t word = multiply(s, 2) << 24 | s << 16 | s << 8 | multiply(s, 3);
        for (int k = 0; k < 4; k++) {
            tables.t[k][i] = word;
            word = word >> 8 | word << 24;
        }
    }
    return tables;
}

struct Key {
    uint32_t words[44];
};

static Key expand(const Tables &tables, const uint32_t *key)
{
    Key result;
    uint32_t constant = 1;
    for (int i = 0; i < 44; i++) {
        if (i < 4) {
            result.words[i] = key[i];
            continue;
        }
        uint32_t word = result.words[i - 1];
        if (i % 4 == 0) {
            word = word << 8 | word >> 24;
            word = uint32_t(tables.box[word >> 24]) << 24 | tables.box[word >> 16 & 255] << 16 | tables.box[word >> 8 & 255] << 8 | tables.box[word & 255];
            word ^= constant << 24;
            constant = multiply(constant, 2);
        }
        result.words[i] = result.words[i - 4] ^ word;
    }
    return result;
}

__host__ __device__ inline void encrypt(const Tables &tables, const Key &key, const uint32_t *in, uint32_t *out)
{
    uint32_t s[4], n[4];
    for (int i = 0; i < 4; i++)
        s[i] = in[i] ^ key.words[i];
    for (int round = 1; round < 10; round++) {
        for (int i = 0; i < 4; i++)
            n[i] = tables.t[0][s[i] >> 24] ^ tables.t[1][s[(i + 1) & 3] >> 16 & 255] ^ tables.t[2][s[(i + 2) & 3] >> 8 & 255]
                ^ tables.t[3][s[(i + 3) & 3] & 255] ^ key.words[round * 4 + i];
        for (int i = 0; i < 4; i++)
            s[i] = n[i];
    }
    for (int i = 0; i < 4; i++)
        out[i] = (uint32_t(tables.box[s[i] >> 24]) << 24 | tables.box[s[(i + 1) & 3] >> 16 & 255] << 16 | tables.box[s[(i + 2) & 3] >> 8 & 255] << 8
            | tables.box[s[(i + 3) & 3] & 255]) ^ key.words[40 + i];
}

__global__ void counter_mode(const Tables *tables, Key key, uint4 nonce, const uint4 *text, uint4 *out, int blocks)
{
    __shared__ Tables local;
    for (int i = threadIdx.x; i < sizeof(Tables) / 4; i += blockDim.x)
        ((uint32_t *)&local)[i] = ((const uint32_t *)tables)[i];
    __syncthreads();
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < blocks; at += gridDim.x * blockDim.x) {
        uint32_t counter[4] = {nonce.x, nonce.y, nonce.z, nonce.w + at}, stream[4];
        encrypt(local, key, counter, stream);
        uint4 v = text[at];
        out[at] = make_uint4(v.x ^ stream[0], v.y ^ stream[1], v.z ^ stream[2], v.w ^ stream[3]);
    }
}

int main()
{
    const int blocks = 1 << 17;
    Tables tables = make_tables();
    const uint32_t secret[4] = {0x00010203, 0x04050607, 0x08090a0b, 0x0c0d0e0f}, plain[4] = {0x00112233, 0x44556677, 0x8899aabb, 0xccddeeff};
    Key key = expand(tables, secret);
    uint32_t first[4];
    encrypt(tables, key, plain, first);
    suite::equal("FIPS 197", first[0], 0x69c4e0d8u);
    auto text = suite::words(blocks * 4, 161), expected = text;
    for (int i = 0; i < blocks; i++) {
        uint32_t counter[4] = {1, 2, 3, 4u + i}, stream[4];
        encrypt(tables, key, counter, stream);
        for (int k = 0; k < 4; k++)
            expected[i * 4 + k] ^= stream[k];
    }
    suite::Device<Tables> shared(std::vector<Tables>{tables});
    suite::Device<uint32_t> in(text), out(blocks * 4);
    auto launch = [&] { counter_mode<<<128, 256>>>(shared, key, make_uint4(1, 2, 3, 4), (const uint4 *)in.data(), (uint4 *)out.data(), blocks); };
    launch();
    suite::equal("encrypted", out.host(), expected);
    suite::timed("counter_mode", launch);
    return suite::finish();
}
