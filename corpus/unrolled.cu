// Long straight-line code: a SHA-256 compression, an unrolled FFT butterfly, a sorting network in registers.
// oriole: arch=compute_80
// oriole: arch=compute_100

__constant__ unsigned round_constants[64];

__device__ __forceinline__ unsigned rotate(unsigned x, int n) { return __funnelshift_r(x, x, n); }

extern "C" __global__ void sha256_block(const unsigned* message, unsigned* digest) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned w[16], h[8];
#pragma unroll
    for (int i = 0; i < 16; ++i) w[i] = __byte_perm(message[t * 16 + i], 0, 0x0123);
#pragma unroll
    for (int i = 0; i < 8; ++i) h[i] = digest[t * 8 + i];
    unsigned a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], q = h[7];
#pragma unroll
    for (int i = 0; i < 64; ++i) {
        if (i >= 16) {
            unsigned x = w[(i + 1) & 15], y = w[(i + 14) & 15];
            w[i & 15] += (rotate(x, 7) ^ rotate(x, 18) ^ (x >> 3)) + w[(i + 9) & 15] + (rotate(y, 17) ^ rotate(y, 19) ^ (y >> 10));
        }
        unsigned u = q + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + round_constants[i] + w[i & 15];
        unsigned v = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        q = g; g = f; f = e; e = d + u; d = c; c = b; b = a; a = u + v;
    }
    unsigned s[8] = {a, b, c, d, e, f, g, q};
#pragma unroll
    for (int i = 0; i < 8; ++i) digest[t * 8 + i] = h[i] + s[i];
}

extern "C" __global__ void fft_16(float2* data) {
    float2 v[16];
    float2* p = data + (blockIdx.x * blockDim.x + threadIdx.x) * 16;
#pragma unroll
    for (int i = 0; i < 16; ++i) v[i] = p[(i & 1) << 3 | (i & 2) << 1 | (i & 4) >> 1 | (i & 8) >> 3];
#pragma unroll
    for (int half = 1; half < 16; half *= 2)
#pragma unroll
        for (int i = 0; i < 16; ++i)
            if (!(i & half)) {
                float angle = -3.14159265f * (i & (half - 1)) / half, s = __sinf(angle), c = __cosf(angle);
                float2 u = v[i], x = v[i + half], t = make_float2(x.x * c - x.y * s, x.x * s + x.y * c);
                v[i] = make_float2(u.x + t.x, u.y + t.y);
                v[i + half] = make_float2(u.x - t.x, u.y - t.y);
            }
#pragma unroll
    for (int i = 0; i < 16; ++i) p[i] = v[i];
}

extern "C" __global__ void sort_network_32(int* data) {
    int v[32];
    int* p = data + (blockIdx.x * blockDim.x + threadIdx.x) * 32;
#pragma unroll
    for (int i = 0; i < 32; ++i) v[i] = p[i];
#pragma unroll
    for (int k = 2; k <= 32; k *= 2)
#pragma unroll
        for (int j = k / 2; j > 0; j /= 2)
#pragma unroll
            for (int i = 0; i < 32; ++i)
                if ((i ^ j) > i) {
                    int low = min(v[i], v[i ^ j]), high = max(v[i], v[i ^ j]);
                    bool up = !(i & k);
                    v[i] = up ? low : high;
                    v[i ^ j] = up ? high : low;
                }
#pragma unroll
    for (int i = 0; i < 32; ++i) p[i] = v[i];
}
