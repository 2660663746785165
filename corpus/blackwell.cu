// What sm_100 added outside the tensor cores: 256-bit loads, cluster launch control, float redux, bulk stores.
// oriole: arch=compute_100a

typedef unsigned long long u64;
__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

extern "C" __global__ void copy_256_bit(const float* in, float* out) {
    float v[8];
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    asm volatile("ld.global.nc.L1::no_allocate.v8.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8];"
                 : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]), "=f"(v[4]), "=f"(v[5]), "=f"(v[6]), "=f"(v[7]) : "l"(in + i));
    asm volatile("st.global.v8.f32 [%0], {%1,%2,%3,%4,%5,%6,%7,%8};"
                 ::"l"(out + i), "f"(v[7]), "f"(v[6]), "f"(v[5]), "f"(v[4]), "f"(v[3]), "f"(v[2]), "f"(v[1]), "f"(v[0]) : "memory");
}

extern "C" __global__ void float_redux(const float* in, float* out, unsigned* narrow) {
    float v = in[threadIdx.x], lowest, highest;
    asm volatile("redux.sync.min.abs.f32 %0, %1, -1;" : "=f"(lowest) : "f"(v));
    asm volatile("redux.sync.max.NaN.f32 %0, %1, -1;" : "=f"(highest) : "f"(v));
    out[threadIdx.x] = fmaxf(fmaxf(lowest, highest), v);
    unsigned short scale;
    asm("cvt.rp.satfinite.ue8m0x2.f32 %0, %1, %2;" : "=h"(scale) : "f"(lowest), "f"(highest));
    unsigned packed;
    asm("cvt.rs.f16x2.f32 %0, %1, %2, %3;" : "=r"(packed) : "f"(lowest), "f"(highest), "r"(threadIdx.x));
    narrow[threadIdx.x] = scale + packed;
}

extern "C" __global__ void steal_work(int* out) {
    __shared__ __align__(16) uint4 answer;
    __shared__ __align__(8) u64 barrier;
    unsigned bar = shared_address(&barrier), got = 1, x = blockIdx.x;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
    __syncthreads();
    for (unsigned phase = 0; got; phase ^= 1) {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 _, [%0], 16;" ::"r"(bar) : "memory");
            asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];"
                         ::"r"(shared_address(&answer)), "r"(bar) : "memory");
        }
        out[x] += threadIdx.x;
        unsigned done = 0;
        while (!done)
            asm volatile("{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n\tselp.u32 %0, 1, 0, p;\n\t}"
                         : "=r"(done) : "r"(bar), "r"(phase) : "memory");
        asm volatile("{\n\t.reg .b128 r;\n\t.reg .pred p;\n\tld.shared.b128 r, [%2];\n\t"
                     "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, r;\n\tselp.u32 %0, 1, 0, p;\n\t"
                     "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%1, _, _, _}, r;\n\t}"
                     : "=r"(got), "+r"(x) : "r"(shared_address(&answer)) : "memory");
        __syncthreads();
    }
}

extern "C" __global__ void clear_shared(u64* out) {
    __shared__ __align__(16) u64 area[256];
    if (threadIdx.x == 0) asm volatile("st.bulk.weak.shared::cta [%0], %1, 0;" ::"r"(shared_address(area)), "l"(2048ull) : "memory");
    __syncthreads();
    out[threadIdx.x] = area[threadIdx.x];
}
