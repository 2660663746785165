// kernel-test 1
// about: colors through a table of three dimensions, interpolated
// kernel: trilinear_lookup
// grid: 1024 1 1
// block: 256 1 1
// param pixels: u32[1048576] = random:232
// param table: f32[143748] = sized:233
// param out: u32[1048576] = zero
// expect out: exact = ?*1048576

// oriole: arch=compute_80
__device__ float4 between(float4 a, float4 b, float t)
{
    return make_float4(a.x + (b.x - a.x) * t, a.y + (b.y - a.y) * t, a.z + (b.z - a.z) * t, 0);
}

// A table of 33 by 33 by 33 colors.
extern "C" __global__ void trilinear_lookup(const unsigned *pixels, const float4 *table, unsigned *out)
{
    for (unsigned at = blockIdx.x * 256 + threadIdx.x; at < 1048576; at += gridDim.x * 256) {
        unsigned pixel = pixels[at];
        float r = (pixel & 255) * 0.125f, g = (pixel >> 8 & 255) * 0.125f, b = (pixel >> 16 & 255) * 0.125f;
        int i = (int)r, j = (int)g, k = (int)b, base = (k * 33 + j) * 33 + i;
        float fr = r - i, fg = g - j, fb = b - k;
        float4 low = between(between(table[base], table[base + 1], fr), between(table[base + 33], table[base + 34], fr), fg);
        float4 high = between(between(table[base + 1089], table[base + 1090], fr), between(table[base + 1122], table[base + 1123], fr), fg);
        float4 color = between(low, high, fb);
        unsigned red = __float2uint_rn(__saturatef(color.x * 0.1f) * 255), green = __float2uint_rn(__saturatef(color.y * 0.1f) * 255);
        out[at] = red | green << 8 | __float2uint_rn(__saturatef(color.z * 0.1f) * 255) << 16 | (pixel & 0xff000000);
    }
}
