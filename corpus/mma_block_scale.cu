// Block-scaled matrix instructions of sm_120a: mxfp8, mxfp4 and nvfp4, with scale vectors; ldmatrix of narrow types.
// oriole: arch=compute_120a

__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

extern "C" __global__ void mma_scaled(const unsigned* in, float* out, unsigned scale_a, unsigned scale_b) {
    unsigned r[6];
    for (int i = 0; i < 6; ++i) r[i] = in[threadIdx.x + 32 * i];
    float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
    unsigned short zero = 0;
    asm volatile("mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e2m1.f32.ue8m0 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3}, %10, {%12, %12}, %11, {%12, %12};"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
                 : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]), "r"(scale_a), "r"(scale_b), "h"(zero));
    asm volatile("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3}, {%10}, {%12, %12}, {%11}, {%12, %12};"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
                 : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]), "r"(scale_a), "r"(scale_b), "h"(zero));
    asm volatile("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
                 : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]));
    out[threadIdx.x] = d0 + d1 + d2 + d3;
}

extern "C" __global__ void load_narrow(const uint4* in, unsigned* out) {
    __shared__ __align__(16) uint4 tile[32];
    tile[threadIdx.x] = in[threadIdx.x];
    __syncwarp();
    unsigned a, b, c, d;
    asm volatile("ldmatrix.sync.aligned.m8n16.x2.shared.b8x16.b4x16_p64 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(shared_address(tile + threadIdx.x)));
    asm volatile("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%0, %1}, [%2];" : "=r"(c), "=r"(d) : "r"(shared_address(tile + threadIdx.x)));
    out[threadIdx.x] = a ^ b ^ c ^ d;
}
