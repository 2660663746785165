// Image processing: byte pixels, colour conversion, 2-D convolution with constant weights, bilinear scaling, life on bits.
// oriole: arch=compute_80

extern "C" __global__ void rgb_to_yuv(const uchar3* in, uchar3* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uchar3 p = in[i];
    int y = (66 * p.x + 129 * p.y + 25 * p.z + 128) >> 8, u = (-38 * p.x - 74 * p.y + 112 * p.z + 128) >> 8;
    int v = (112 * p.x - 94 * p.y - 18 * p.z + 128) >> 8;
    out[i] = make_uchar3(y + 16, u + 128, v + 128);
}

extern "C" __global__ void sobel(const unsigned char* in, short* out, int width, int height, size_t pitch) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x == 0 || y == 0 || x >= width - 1 || y >= height - 1) return;
    const unsigned char* p = in + y * pitch + x;
    int gx = p[-(long long)pitch + 1] - p[-(long long)pitch - 1] + 2 * (p[1] - p[-1]) + p[pitch + 1] - p[pitch - 1];
    int gy = p[pitch - 1] + 2 * p[pitch] + p[pitch + 1] - p[-(long long)pitch - 1] - 2 * p[-(long long)pitch] - p[-(long long)pitch + 1];
    out[y * width + x] = (short)(abs(gx) + abs(gy));
}

extern "C" __global__ void bilinear(const float* in, int w, int h, float* out, int ow, int oh) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= ow || y >= oh) return;
    float fx = (x + 0.5f) * w / ow - 0.5f, fy = (y + 0.5f) * h / oh - 0.5f;
    int ix = floorf(fx), iy = floorf(fy);
    float ax = fx - ix, ay = fy - iy;
    auto at = [&](int u, int v) { return in[min(max(v, 0), h - 1) * w + min(max(u, 0), w - 1)]; };
    out[y * ow + x] = (at(ix, iy) * (1 - ax) + at(ix + 1, iy) * ax) * (1 - ay) + (at(ix, iy + 1) * (1 - ax) + at(ix + 1, iy + 1) * ax) * ay;
}

// Game of life, 32 cells a word, neighbours counted with full adders.
extern "C" __global__ void life_bits(const unsigned* in, unsigned* out, int words, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= words) return;
    unsigned s[3], c[3], middle_side = 0, middle_carry = 0;
    for (int d = -1; d <= 1; ++d) {
        const unsigned* row = in + ((y + d + height) % height) * words;
        unsigned m = row[x], l = __funnelshift_l(row[(x + words - 1) % words], m, 1), r = __funnelshift_r(m, row[(x + 1) % words], 1);
        s[d + 1] = l ^ m ^ r;
        c[d + 1] = (l & m) | (l & r) | (m & r);
        if (d == 0) { middle_side = l ^ r; middle_carry = l & r; }
    }
    unsigned ones = s[0] ^ middle_side ^ s[2], carry = (s[0] & middle_side) | (s[0] & s[2]) | (middle_side & s[2]);
    unsigned twos = c[0] ^ middle_carry ^ c[2] ^ carry;
    unsigned fours = (c[0] & middle_carry) | (c[0] & c[2]) | (middle_carry & c[2]) | (carry & (c[0] ^ middle_carry ^ c[2]));
    out[y * words + x] = twos & ~fours & (ones | in[y * words + x]);
}
