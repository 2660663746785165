// Warp-level matrix instructions: ldmatrix, stmatrix, mma.sync in f16, bf16, tf32, f64, s8, s4, b1 and sparse forms.
// oriole: arch=compute_80
// oriole: arch=compute_90

__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// A 16x8 tile of C = A B in half precision, staged in shared memory, float accumulation.
extern "C" __global__ void mma_f16_tile(const uint4* a, const uint4* b, float* c, int k) {
    __shared__ __align__(16) unsigned sa[16 * 8], sb[8 * 8];
    float d[4] = {};
    int lane = threadIdx.x & 31;
    for (int k0 = 0; k0 < k; k0 += 16) {
        ((uint4*)sa)[lane] = a[k0 * 2 + lane];
        if (lane < 16) ((uint4*)sb)[lane] = b[k0 + lane];
        __syncwarp();
        unsigned fa[4], fb[2];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3]) : "r"(shared_address(sa + (lane & 15) * 8 + (lane >> 4) * 4)));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                     : "=r"(fb[0]), "=r"(fb[1]) : "r"(shared_address(sb + (lane & 15) * 4)));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
        __syncwarp();
    }
    for (int i = 0; i < 4; ++i) c[lane * 4 + i] = d[i];
}

#define LOAD(n) for (int i = 0; i < n; ++i) r[i] = in[threadIdx.x + 32 * i]

extern "C" __global__ void mma_float_types(const unsigned* in, float* out, double* wide) {
    unsigned r[8];
    LOAD(8);
    float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]));
    unsigned t;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(t) : "f"(d0));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "r"(t), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]));
    asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9,%10,%11}, {%0,%1,%2,%3}, %12, 0x1;"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
                 : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]), "r"(r[6]), "r"(r[7]), "r"(t));
    unsigned h0 = r[0], h1 = r[1];
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3}, {%4}, {%0,%1};"
                 : "+r"(h0), "+r"(h1) : "r"(r[2]), "r"(r[3]), "r"(r[4]));
    double w0 = wide[0], w1 = wide[1];
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+d"(w0), "+d"(w1) : "d"(wide[2]), "d"(wide[3]));
    out[threadIdx.x] = d0 + d1 * d2 - d3 + h0 + h1;
    wide[threadIdx.x] = w0 + w1;
}

extern "C" __global__ void mma_integer_types(const unsigned* in, int* out) {
    unsigned r[8];
    LOAD(8);
    int d0 = 0, d1 = 0, d2 = 0, d3 = 0;
    asm volatile("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(d0), "+r"(d1), "+r"(d2), "+r"(d3) : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+r"(d0), "+r"(d1), "+r"(d2), "+r"(d3) : "r"(r[0]), "r"(r[1]), "r"(r[4]));
    asm volatile("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(d0), "+r"(d1), "+r"(d2), "+r"(d3) : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]));
    asm volatile("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(d0), "+r"(d1), "+r"(d2), "+r"(d3) : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[6]), "r"(r[7]));
    out[threadIdx.x] = d0 + d1 + d2 + d3;
}

extern "C" __global__ void matrix_transpose_warp(const unsigned* in, unsigned* out) {
    unsigned v = in[threadIdx.x], w;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(w) : "r"(v));
    out[threadIdx.x] = w;
#if __CUDA_ARCH__ >= 900
    __shared__ __align__(16) unsigned tile[128];
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(shared_address(tile + (threadIdx.x & 15) * 4)), "r"(v), "r"(w) : "memory");
    __syncwarp();
    out[threadIdx.x + 32] = tile[threadIdx.x];
#endif
}
