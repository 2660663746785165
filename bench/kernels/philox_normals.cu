// kernel-test 1
// about: Philox random numbers, turned to normal ones by the method of Box and Muller
// kernel: philox_normals
// grid: 1024 1 1
// block: 256 1 1
// param key: u32[2] = random:231
// param out: f32[1048576] = zero
// expect out: exact = ?*1048576

// oriole: arch=compute_80
extern "C" __global__ void philox_normals(const uint2 *key, float4 *out)
{
    unsigned at = blockIdx.x * 256 + threadIdx.x, a = at, b = 7, c = 0, d = 0, k0 = key->x, k1 = key->y;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        unsigned high = __umulhi(0xd2511f53, a), low = 0xd2511f53 * a, other = __umulhi(0xcd9e8d57, c), rest = 0xcd9e8d57 * c;
        a = other ^ b ^ k0;
        b = rest;
        c = high ^ d ^ k1;
        d = low;
        k0 += 0x9e3779b9;
        k1 += 0xbb67ae85;
    }
    float u = fmaf(a, 0x1p-32f, 0x1p-33f), v = b * 0x1p-31f, x = fmaf(c, 0x1p-32f, 0x1p-33f), y = d * 0x1p-31f;
    float first = sqrtf(-2.0f * logf(u)), second = sqrtf(-2.0f * logf(x)), s, t;
    sincospif(v, &s, &t);
    float4 result;
    result.x = first * s;
    result.y = first * t;
    sincospif(y, &s, &t);
    result.z = second * s;
    result.w = second * t;
    out[at] = result;
}
