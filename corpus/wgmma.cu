// Warp-group matrix multiply of sm_90a: descriptors, a producer warp group with TMA, register reallocation, fp8 and tf32.
// oriole: arch=compute_90a
// oriole: arch=compute_90a options=-lineinfo tag=lineinfo

typedef unsigned long long u64;
__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// Matrix descriptor: start address, leading and stride offsets in 16-byte units, 128-byte swizzle.
__device__ __forceinline__ u64 descriptor(const void* p) {
    u64 d = (shared_address(p) & 0x3ffff) >> 4;
    return d | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
}

__device__ __forceinline__ void wgmma_m64n64k16(float (&d)[32], u64 a, u64 b, int accumulate) {
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %34, 0;\n\t"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, p, 1, 1, 0, 0;\n\t}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
          "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
          "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
          "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b), "r"(accumulate));
}

extern "C" __global__ void __launch_bounds__(128) wgmma_f16(const uint4* a, const uint4* b, float* c) {
    __shared__ __align__(1024) uint4 sa[512], sb[512];
    for (int i = threadIdx.x; i < 512; i += 128) { sa[i] = a[i]; sb[i] = b[i]; }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    float d[32];
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; ++k) wgmma_m64n64k16(d, descriptor(sa) + 2 * k, descriptor(sb) + 2 * k, k > 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < 32; ++i) c[threadIdx.x * 32 + i] = d[i];
}

struct alignas(64) TensorMap { u64 opaque[16]; };

// Producer and consumer warp groups over a ring of four stages.
extern "C" __global__ void __launch_bounds__(256, 1) wgmma_pipeline(const __grid_constant__ TensorMap map_a,
                                                                 const __grid_constant__ TensorMap map_b, float* c, int steps) {
    extern __shared__ __align__(1024) unsigned char stage[];
    __shared__ __align__(8) u64 full[4], empty[4];
    if (threadIdx.x == 0)
        for (int i = 0; i < 4; ++i) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(full + i)) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" ::"r"(shared_address(empty + i)) : "memory");
        }
    __syncthreads();
    auto wait = [](u64* bar, unsigned parity) {
        asm volatile("{\n\t.reg .pred ready;\n\tspin:\n\tmbarrier.try_wait.parity.shared::cta.b64 ready, [%0], %1;\n\t"
                     "@!ready bra spin;\n\t}" ::"r"(shared_address(bar)), "r"(parity) : "memory");
    };
    if (threadIdx.x >= 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 128)
            for (int s = 0; s < steps; ++s) {
                int i = s & 3;
                wait(empty + i, (s >> 2 & 1) ^ 1);
                unsigned bar = shared_address(full + i), dst = shared_address(stage) + i * 16384;
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16384;" ::"r"(bar) : "memory");
                asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                             ::"r"(dst), "l"(&map_a), "r"(s * 64), "r"(blockIdx.y * 64), "r"(bar) : "memory");
                asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                             ::"r"(dst + 8192), "l"(&map_b), "r"(s * 64), "r"(blockIdx.x * 64), "r"(bar) : "memory");
            }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        float d[32] = {};
        for (int s = 0; s < steps; ++s) {
            int i = s & 3;
            wait(full + i, s >> 2 & 1);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int k = 0; k < 4; ++k)
                wgmma_m64n64k16(d, descriptor(stage + i * 16384) + 2 * k, descriptor(stage + i * 16384 + 8192) + 2 * k, 1);
            asm volatile("wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;" ::: "memory");
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(empty + i)) : "memory");
        }
        for (int i = 0; i < 32; ++i) c[threadIdx.x * 32 + i] = d[i];
    }
}

// Small shapes of other types; A from registers in one of them.
extern "C" __global__ void __launch_bounds__(128) wgmma_other_types(float* c, int* ci, unsigned a0, unsigned a1) {
    __shared__ __align__(1024) unsigned char sa[8192], sb[4096];
    u64 da = descriptor(sa), db = descriptor(sb);
    float d[4] = {};
    int e[4] = {};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%0,%1,%2,%3}, %4, %5, 1, 1, -1;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(da), "l"(db));
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2 {%0,%1,%2,%3}, %4, %5, 1, 1, 1;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(da), "l"(db));
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, 1, 1, 1, 1;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(a0), "r"(a1), "l"(db));
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8 {%0,%1,%2,%3}, %4, %5, 1;"
                 : "+r"(e[0]), "+r"(e[1]), "+r"(e[2]), "+r"(e[3]) : "l"(da), "l"(db));
    asm volatile("wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < 4; ++i) { c[threadIdx.x * 4 + i] = d[i]; ci[threadIdx.x * 4 + i] = e[i]; }
}
