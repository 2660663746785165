// Packed 8- and 16-bit integer SIMD: the __v intrinsics and the scalar video instructions.
// oriole: arch=compute_80
// oriole: arch=compute_90

extern "C" __global__ void packed_intrinsics(const unsigned* in, unsigned* out) {
    int i = threadIdx.x;
    unsigned a = in[i], b = in[i + 32], c = in[i + 64];
    out[0] = __vadd2(a, b) ^ __vadd4(a, c);
    out[1] = __vsub2(a, b) ^ __vsubss4(a, c);
    out[2] = __vmaxs2(a, b) ^ __vminu4(b, c);
    out[3] = __vabsdiffu4(a, b) + __vsadu4(b, c);
    out[4] = __vcmpgts2(a, b) & __vsetleu4(a, c);
    out[5] = __vavgu4(a, b) ^ __vhaddu2(b, c);
    out[6] = __vabs2(a) ^ __vneg4(b) ^ __vaddus2(b, c);
    out[7] = __viaddmax_s32(a, b, c) + __vimax3_s16x2(a, b, c) + __vimin_s32_relu(a, b);
    bool high;
    out[8] = __vibmax_u32(a, b, &high) + high;
}

extern "C" __global__ void video_asm(const int* in, int* out) {
    int i = threadIdx.x, a = in[i], b = in[i + 1], c = in[i + 2], r;
    asm("vadd.s32.s32.s32 %0, %1.b0, %2.h1, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    out[0] = r;
    asm("vmad.s32.s32.s32.sat %0, %1.b2, %2.b1, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    out[1] = r;
    asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    out[2] = r;
    asm("vset.s32.u32.lt %0, %1.h0, %2.b3;" : "=r"(r) : "r"(a), "r"(b));
    out[3] = r;
    asm("vshl.u32.u32.u32.clamp.max %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    out[4] = r;
    asm("vmin2.s32.s32.s32 %0.h10, %1.h21, %2.h03, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    out[5] = r;
}
