// kernel-test 1
// about: AES-128 with a table in shared memory, a block of 16 bytes for each thread
// kernel: aes_tables
// grid: 512 1 1
// block: 256 1 1
// param text: u32[524288] = random:182
// param keys: u32[44] = random:183
// param out: u32[524288] = zero
// expect out: exact = ?*524288

// oriole: arch=compute_80
// The S-box is computed: the inverse in the field of 256 elements, then an affine map.
__device__ unsigned multiply(unsigned a, unsigned b)
{
    unsigned product = 0;
    for (int i = 0; i < 8; i++) {
        product ^= b >> i & 1 ? a : 0;
        a = a << 1 ^ (a & 128 ? 0x11b : 0);
    }
    return product;
}

__device__ unsigned turn(unsigned v, int by) { return __funnelshift_l(v, v, by); }

extern "C" __global__ void aes_tables(const uint4 *text, const unsigned *keys, uint4 *out)
{
    __shared__ unsigned table[256], key[44];
    unsigned power = threadIdx.x, inverse = 1;
    // x to the power of 254.
    for (int i = 0; i < 7; i++) {
        power = multiply(power, power);
        inverse = multiply(inverse, power);
    }
    unsigned s = (inverse ^ inverse << 1 ^ inverse << 2 ^ inverse << 3 ^ inverse << 4);
    s = ((s ^ s >> 8) & 255) ^ 0x63;
    unsigned twice = s << 1 ^ (s & 128 ? 0x11b : 0);
    table[threadIdx.x] = twice | s << 8 | s << 16 | (twice ^ s) << 24;
    if (threadIdx.x < 44)
        key[threadIdx.x] = keys[threadIdx.x];
    __syncthreads();
    uint4 t = text[blockIdx.x * 256 + threadIdx.x];
    unsigned a = t.x ^ key[0], b = t.y ^ key[1], c = t.z ^ key[2], d = t.w ^ key[3];
    for (int round = 1; round < 10; round++) {
        unsigned w = table[a & 255] ^ turn(table[b >> 8 & 255], 8) ^ turn(table[c >> 16 & 255], 16) ^ turn(table[d >> 24], 24) ^ key[round * 4];
        unsigned x = table[b & 255] ^ turn(table[c >> 8 & 255], 8) ^ turn(table[d >> 16 & 255], 16) ^ turn(table[a >> 24], 24) ^ key[round * 4 + 1];
        unsigned y = table[c & 255] ^ turn(table[d >> 8 & 255], 8) ^ turn(table[a >> 16 & 255], 16) ^ turn(table[b >> 24], 24) ^ key[round * 4 + 2];
        d = table[d & 255] ^ turn(table[a >> 8 & 255], 8) ^ turn(table[b >> 16 & 255], 16) ^ turn(table[c >> 24], 24) ^ key[round * 4 + 3];
        a = w;
        b = x;
        c = y;
    }
    // The last round has no mixing of columns: the S-box itself is the second byte of the table.
    unsigned in[4] = {a, b, c, d}, last[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        last[i] = ((table[in[i] & 255] >> 8 & 255) | (table[in[(i + 1) % 4] >> 8 & 255] & 0xff00) | (table[in[(i + 2) % 4] >> 16 & 255] & 0xff00) << 8
            | (table[in[(i + 3) % 4] >> 24] & 0xff00) << 16) ^ key[40 + i];
    out[blockIdx.x * 256 + threadIdx.x] = make_uint4(last[0], last[1], last[2], last[3]);
}
