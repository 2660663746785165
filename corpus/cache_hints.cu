// Loads and stores with every kind of hint: cache operators, eviction priorities, prefetch, policies, discard.
// oriole: arch=compute_80

extern "C" __global__ void hinted_copy(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = __ldcg(in + i), b = __ldca(in + i + n), c = __ldcs(in + i + 2 * n), d = __ldlu(in + i + 3 * n);
    __stcg(out + i, a); __stcs(out + i + n, b); __stwb(out + i + 2 * n, c); __stwt(out + i + 3 * n, d + __ldcv(in));
}

extern "C" __global__ void policies(const float4* in, float4* out, float fraction) {
    int i = threadIdx.x;
    float4 v, w;
    unsigned long long policy, range;
    asm volatile("createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %0, %1;" : "=l"(policy) : "f"(fraction));
    asm volatile("createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %0, [%1], %2, %3;"
                 : "=l"(range) : "l"(in), "r"(4096), "r"(8192));
    asm volatile("prefetch.global.L2 [%0];" ::"l"(in + i + 128));
    asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(in + i + 256));
    asm volatile("prefetchu.L1 [%0];" ::"l"(in + i + 512));
    asm volatile("applypriority.global.L2::evict_normal [%0], 128;" ::"l"(out));
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(in + i));
    asm volatile("ld.global.L1::evict_last.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=f"(w.x), "=f"(w.y), "=f"(w.z), "=f"(w.w) : "l"(in + i + 64), "l"(policy));
    asm volatile("st.global.L1::no_allocate.L2::cache_hint.v2.f32 [%0], {%1, %2}, %3;"
                 ::"l"(out + i), "f"(v.x + w.x), "f"(v.y * w.y), "l"(range) : "memory");
    asm volatile("atom.global.add.L2::cache_hint.f32 %0, [%1], %2, %3;" : "=f"(v.z) : "l"(out), "f"(w.z), "l"(policy) : "memory");
    asm volatile("discard.global.L2 [%0], 128;" ::"l"(out + 1024) : "memory");
    out[i].z = v.z; out[i].w = v.w - w.w;
}
