// Bit manipulation: reversal, counting, byte permutes, three-input logic, funnel shifts, dot products of bytes, bfe/bfi.
// oriole: arch=compute_80
// oriole: arch=compute_100

extern "C" __global__ void bit_zoo(const unsigned* in, unsigned* out) {
    int i = threadIdx.x;
    unsigned a = in[i], b = in[i + 32], c = in[i + 64], r;
    out[0] = __brev(a) + __popc(b) + __clz(c) + __ffs(a);
    out[1] = __byte_perm(a, b, 0x3175) ^ __byte_perm(b, c, a & 0x7777);
    out[2] = (a & b) | (~a & c);
    out[3] = (a & b) ^ (b & c) ^ (a & c);
    out[4] = __funnelshift_l(a, b, c) + __funnelshift_rc(a, b, 13) + __funnelshift_r(b, c, a & 31);
    out[5] = __dp4a((int)a, (int)b, (int)c) + __dp4a(a, b, c) + __dp2a_lo((int)a, (int)b, (int)c);
    asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    out[6] = r;
    asm("bfe.u32 %0, %1, 5, 9;" : "=r"(r) : "r"(a));
    out[7] = r;
    asm("bfi.b32 %0, %1, %2, %3, 7;" : "=r"(r) : "r"(a), "r"(b), "r"(c & 15));
    out[8] = r;
    asm("bfind.shiftamt.s32 %0, %1;" : "=r"(r) : "r"(a));
    out[9] = r;
    asm("fns.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b & 31), "r"(2));
    out[10] = r;
    asm("bmsk.clamp.b32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    out[11] = r;
    asm("szext.wrap.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    out[12] = r;
    asm("prmt.b32.f4e %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    out[13] = r;
}

// Morton codes and a xorshift generator: long chains of shifts and masks.
extern "C" __global__ void morton_random(const ushort2* in, unsigned* out, unsigned long long* state) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x = in[i].x, y = in[i].y;
    x = (x | (x << 8)) & 0x00ff00ff; x = (x | (x << 4)) & 0x0f0f0f0f;
    x = (x | (x << 2)) & 0x33333333; x = (x | (x << 1)) & 0x55555555;
    y = (y | (y << 8)) & 0x00ff00ff; y = (y | (y << 4)) & 0x0f0f0f0f;
    y = (y | (y << 2)) & 0x33333333; y = (y | (y << 1)) & 0x55555555;
    unsigned long long s = state[i];
    for (int k = 0; k < 4; ++k) { s ^= s << 13; s ^= s >> 7; s ^= s << 17; }
    state[i] = s;
    out[i] = (x | (y << 1)) ^ (unsigned)(s * 0x2545f4914f6cdd1dull >> 32);
}
