// fp8 matrix instructions of sm_89.
// oriole: arch=compute_89

extern "C" __global__ void mma_fp8(const unsigned* in, float* out) {
    unsigned r[8];
    for (int i = 0; i < 8; ++i) r[i] = in[threadIdx.x + 32 * i];
    float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.e5m2.e5m2.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "r"(r[6]), "r"(r[7]), "r"(r[0]));
    unsigned short packed;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(d0), "f"(d1));
    unsigned halves;
    asm("cvt.rn.relu.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(packed));
    out[threadIdx.x] = d2 + d3 + __uint_as_float(halves);
}
