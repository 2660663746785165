// Fifth-generation tensor cores (sm_100a): tensor memory allocation, tcgen05.mma, commit, loads, stores and copies.
// oriole: arch=compute_100a

typedef unsigned long long u64;
__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

extern "C" __global__ void __launch_bounds__(128) tcgen05_gemm(u64 a_desc, u64 b_desc, unsigned instruction_desc, float* out, int steps) {
    __shared__ unsigned tmem_slot;
    __shared__ __align__(8) u64 barrier;
    unsigned bar = shared_address(&barrier), slot = shared_address(&tmem_slot);
    if (threadIdx.x < 32) {
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 128;" ::"r"(slot) : "memory");
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
    }
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    unsigned tmem = tmem_slot;
    if (threadIdx.x == 0) {
        for (int k = 0; k < steps; ++k)
            asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %4, 0;\n\t"
                         "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n\t}"
                         ::"r"(tmem), "l"(a_desc + 2 * k), "l"(b_desc + 2 * k), "r"(instruction_desc), "r"(k) : "memory");
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar) : "memory");
    }
    unsigned done = 0;
    while (!done)
        asm volatile("{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n\tselp.u32 %0, 1, 0, p;\n\t}"
                     : "=r"(done) : "r"(bar) : "memory");
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    float r[8];
    for (int column = 0; column < 128; column += 8) {
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
                     : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3]), "=f"(r[4]), "=f"(r[5]), "=f"(r[6]), "=f"(r[7])
                     : "r"(tmem + (threadIdx.x / 32 << 21) + column));
        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
        for (int i = 0; i < 8; ++i) out[threadIdx.x * 128 + column + i] = r[i];
    }
    __syncthreads();
    if (threadIdx.x < 32) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 128;" ::"r"(tmem));
}

extern "C" __global__ void tcgen05_moves(unsigned tmem, u64 desc, unsigned* out, unsigned idesc) {
    unsigned a = out[threadIdx.x], b = out[threadIdx.x + 32], c, d;
    asm volatile("tcgen05.st.sync.aligned.16x64b.x2.b32 [%0], {%1, %2};" ::"r"(tmem), "r"(a), "r"(b) : "memory");
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    if (threadIdx.x == 0) {
        asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(tmem + 64), "l"(desc) : "memory");
        asm volatile("tcgen05.shift.cta_group::1.down [%0];" ::"r"(tmem) : "memory");
        asm volatile("{\n\t.reg .pred p;\n\tsetp.eq.u32 p, %5, 0;\n\t"
                     "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [%0], %1, %2, %3, [%4], [%4], p;\n\t}"
                     ::"r"(tmem), "l"(desc), "l"(desc), "r"(idesc), "r"(tmem + 96), "r"(a) : "memory");
        asm volatile("tcgen05.mma.cta_group::1.kind::tf32 [%0], [%1], %2, %3, 1;" ::"r"(tmem), "r"(tmem + 32), "l"(desc), "r"(idesc) : "memory");
    }
    asm volatile("tcgen05.ld.sync.aligned.16x128b.x1.pack::16b.b32 {%0, %1}, [%2];" : "=r"(c), "=r"(d) : "r"(tmem));
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
    out[threadIdx.x + 64] = c ^ d;
}

// A packed-float loop: add, mul and fma on pairs.
extern "C" __global__ void packed_floats(const u64* x, const u64* y, u64* out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        u64 a = x[i], b = y[i], c;
        asm("fma.rn.f32x2 %0, %1, %2, %1;" : "=l"(c) : "l"(a), "l"(b));
        asm("add.rn.ftz.f32x2 %0, %0, %1;" : "+l"(c) : "l"(b));
        asm("mul.rz.f32x2 %0, %0, %1;" : "+l"(c) : "l"(a));
        out[i] = c;
    }
}
