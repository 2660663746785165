// kernel-test 1
// about: blocks of the ChaCha20 key stream, added to a text
// kernel: chacha20
// grid: 1024 1 1
// block: 128 1 1
// param text: u32[2097152] = random:184
// param key: u32[11] = random:185
// param out: u32[2097152] = zero
// expect out: exact = ?*2097152

// oriole: arch=compute_80
__device__ unsigned rotate(unsigned v, int by) { return __funnelshift_l(v, v, by); }

__device__ void quarter(unsigned &a, unsigned &b, unsigned &c, unsigned &d)
{
    a += b; d = rotate(d ^ a, 16);
    c += d; b = rotate(b ^ c, 12);
    a += b; d = rotate(d ^ a, 8);
    c += d; b = rotate(b ^ c, 7);
}

extern "C" __global__ void chacha20(const uint4 *text, const unsigned *key, uint4 *out)
{
    unsigned at = blockIdx.x * 128 + threadIdx.x;
    unsigned s[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, key[0], key[1], key[2], key[3], key[4], key[5], key[6], key[7], at, key[8],
        key[9], key[10]}, t[16];
#pragma unroll
    for (int i = 0; i < 16; i++)
        t[i] = s[i];
#pragma unroll 2
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
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint4 v = text[at * 4 + i];
        v.x ^= s[i * 4] + t[i * 4];
        v.y ^= s[i * 4 + 1] + t[i * 4 + 1];
        v.z ^= s[i * 4 + 2] + t[i * 4 + 2];
        v.w ^= s[i * 4 + 3] + t[i * 4 + 3];
        out[at * 4 + i] = v;
    }
}
