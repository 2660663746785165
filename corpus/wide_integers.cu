// 64- and 128-bit integers: carries, wide products, high halves, shifts, 256-bit addition with carry chains in asm.
// oriole: arch=compute_80 options=--device-int128
// oriole: arch=compute_90 options="-G --device-int128" tag=debug

typedef unsigned __int128 u128;
typedef __int128 s128;

extern "C" __global__ void int64_mix(const long long* a, const unsigned long long* b, long long* out) {
    int t = threadIdx.x;
    long long x = a[t];
    unsigned long long y = b[t];
    out[0] = x * (long long)y;
    out[1] = __mul64hi(x, out[0]);
    out[2] = (long long)__umul64hi(y, y);
    out[3] = (x << (t & 63)) ^ (x >> (t & 31)) ^ (long long)(y >> 5);
    out[4] = (y << 13) | (y >> 51);
    out[5] = x < 0 ? -x : x;
    out[6] = min(x, out[5]) + max((long long)y, x);
    out[7] = __popcll(y) + __clzll(x) + __ffsll(x) + (long long)__brevll(y);
}

extern "C" __global__ void int128_mix(const u128* a, const s128* b, u128* out, s128* sout) {
    int t = threadIdx.x;
    u128 x = a[t];
    s128 y = b[t];
    out[0] = x + (u128)y;
    out[1] = x * x;
    out[2] = x >> (t & 127);
    out[3] = x << 65;
    sout[0] = y >> (t & 127);
    sout[1] = y - (s128)x;
    sout[2] = y < (s128)x ? y : (s128)x;
}

extern "C" __global__ void divide128(const u128* a, const u128* b, u128* out, const s128* c, s128* d) {
    int t = threadIdx.x;
    out[t] = a[t] / b[t] + a[t] % 1000000007u;
    d[t] = c[t] / c[t + 1];
}

extern "C" __global__ void add256(const uint4* a, const uint4* b, uint4* out) {
    int t = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
    uint4 l = a[t], h = a[t + 1], m = b[t], n = b[t + 1];
    asm("add.cc.u32 %0, %0, %8;\n\taddc.cc.u32 %1, %1, %9;\n\taddc.cc.u32 %2, %2, %10;\n\taddc.cc.u32 %3, %3, %11;\n\t"
        "addc.cc.u32 %4, %4, %12;\n\taddc.cc.u32 %5, %5, %13;\n\taddc.cc.u32 %6, %6, %14;\n\taddc.u32 %7, %7, %15;"
        : "+r"(l.x), "+r"(l.y), "+r"(l.z), "+r"(l.w), "+r"(h.x), "+r"(h.y), "+r"(h.z), "+r"(h.w)
        : "r"(m.x), "r"(m.y), "r"(m.z), "r"(m.w), "r"(n.x), "r"(n.y), "r"(n.z), "r"(n.w));
    out[t] = l;
    out[t + 1] = h;
}

extern "C" __global__ void mad_carry(const unsigned* a, const unsigned long long* b, unsigned* out) {
    unsigned x = a[0], y = a[1], lo, hi, top;
    unsigned long long p = b[0], q;
    asm("mad.lo.cc.u32 %0, %3, %4, %3;\n\tmadc.hi.cc.u32 %1, %3, %4, %4;\n\tmadc.lo.u32 %2, %3, 3, 0;"
        : "=r"(lo), "=r"(hi), "=r"(top) : "r"(x), "r"(y));
    asm("{\n\tsub.cc.u64 %0, %1, 5;\n\tsubc.u64 %0, %0, 0;\n\t}" : "=l"(q) : "l"(p));
    asm("mad.wide.u32 %0, %1, %2, %0;" : "+l"(q) : "r"(x), "r"(y));
    out[0] = lo; out[1] = hi; out[2] = top; out[3] = (unsigned)q; out[4] = __mulhi(x, y); out[5] = __mul24(x, y);
    out[6] = __umulhi(x, y); out[7] = __umul24(x, y); out[8] = __sad((int)x, (int)y, lo); out[9] = __usad(x, y, hi);
    out[10] = __hadd((int)x, (int)y); out[11] = __urhadd(x, y);
}
