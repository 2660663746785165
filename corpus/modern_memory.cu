// Newer memory instructions of sm_90: multimem, 128-bit atomics, tensor-map edits, async reductions, vector reductions.
// oriole: arch=compute_90
// oriole: arch=compute_90a tag=sm_90a

typedef unsigned long long u64;
__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

extern "C" __global__ void multicast_memory(float* multicast, unsigned* words, float* out) {
    float4 v;
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(multicast + 4 * threadIdx.x) : "memory");
    asm volatile("multimem.st.release.sys.global.v4.f32 [%0], {%1,%2,%3,%4};"
                 ::"l"(multicast + 4 * threadIdx.x), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
    asm volatile("multimem.red.release.gpu.global.add.u32 [%0], %1;" ::"l"(words), "r"(1) : "memory");
    out[threadIdx.x] = v.x + v.w;
}

extern "C" __global__ void wide_atomics(u64* pairs, float* floats, unsigned* halves) {
    u64 low = threadIdx.x, high = 7, old_low, old_high;
    asm volatile("{\n\t.reg .b128 value, compare, old;\n\tmov.b128 value, {%2, %3};\n\tmov.b128 compare, {%3, %2};\n\t"
                 "atom.global.cas.b128 old, [%4], compare, value;\n\tmov.b128 {%0, %1}, old;\n\t}"
                 : "=l"(old_low), "=l"(old_high) : "l"(low), "l"(high), "l"(pairs) : "memory");
    float a, b;
    asm volatile("atom.global.add.v2.f32 {%0, %1}, [%2], {%3, %3};" : "=f"(a), "=f"(b) : "l"(floats), "f"(1.0f) : "memory");
    asm volatile("red.global.add.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(floats + 4), "f"(2.0f) : "memory");
    asm volatile("red.global.max.noftz.v2.f16x2 [%0], {%1, %2};" ::"l"(halves), "r"(0x3c003c00), "r"(0x40004000) : "memory");
    asm volatile("red.global.add.noftz.bf16x2 [%0], %1;" ::"l"(halves + 8), "r"(0x3f803f80) : "memory");
    pairs[2 + threadIdx.x] = old_low ^ old_high;
    floats[8 + threadIdx.x] = a + b;
}

struct alignas(64) TensorMap { u64 opaque[16]; };

extern "C" __global__ void tensor_gather(const __grid_constant__ TensorMap map, u64* out) {
    __shared__ __align__(128) float tile[1024];
    __shared__ __align__(8) u64 barrier;
    unsigned bar = shared_address(&barrier), smem = shared_address(tile);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2, %2, %2}], [%3], {%4, %4};"
                     ::"r"(smem), "l"(&map), "r"(0), "r"(bar), "h"((short)1) : "memory");
        asm volatile("cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%0, {%1}], [%2];" ::"l"(&map), "r"(64), "r"(smem) : "memory");
        asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %1}];" ::"l"(&map), "r"(8) : "memory");
        asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group.read 1;" ::: "memory");
    }
    out[threadIdx.x] = barrier;
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(smem), "l"(out) : "memory");
    asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;" ::"r"(smem), "r"(512) : "memory");
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
                 ::"l"(out), "r"(smem) : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(out) : "memory");
#endif
}
