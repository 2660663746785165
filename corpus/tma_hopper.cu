// The tensor memory accelerator: tensor-map loads and stores, bulk copies and reductions, transaction barriers, clusters.
// oriole: arch=compute_90
// oriole: arch=compute_100

__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

struct alignas(64) TensorMap { unsigned long long opaque[16]; };

__device__ __forceinline__ void wait_parity(unsigned bar, unsigned parity) {
    asm volatile(
        "{\n\t"
        ".reg .pred P1;\n\t"
        "LAB_WAIT:\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1, 0x989680;\n\t"
        "@P1 bra.uni DONE;\n\t"
        "bra.uni LAB_WAIT;\n\t"
        "DONE:\n\t"
        "}" ::"r"(bar), "r"(parity) : "memory");
}

extern "C" __global__ void tensor_tile_2d(const __grid_constant__ TensorMap map_in, const __grid_constant__ TensorMap map_out) {
    __shared__ __align__(128) float tile[32][32];
    __shared__ __align__(8) unsigned long long barrier;
    unsigned bar = shared_address(&barrier), smem = shared_address(tile);
    if (threadIdx.x == 0) {
        asm volatile("prefetch.tensormap [%0];" ::"l"(&map_in) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(4096) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     ::"r"(smem), "l"(&map_in), "r"(blockIdx.x * 32), "r"(blockIdx.y * 32), "r"(bar) : "memory");
    }
    __syncthreads();
    wait_parity(bar, 0);
    for (int r = 0; r < 32; ++r) tile[r][threadIdx.x] *= 2;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                     ::"l"(&map_out), "r"(blockIdx.x * 32), "r"(blockIdx.y * 32), "r"(smem) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) tensor_multicast(const __grid_constant__ TensorMap map, float* out) {
    __shared__ __align__(128) float tile[4][16][16];
    __shared__ __align__(8) unsigned long long barrier;
    unsigned bar = shared_address(&barrier), rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4096;" ::"r"(bar) : "memory");
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (threadIdx.x == 0 && rank == 0)
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
                     " [%0], [%1, {%2, %3, %4}], [%5], %6, %7;"
                     ::"r"(shared_address(tile)), "l"(&map), "r"(0), "r"(16), "r"(4), "r"(bar), "h"((short)3),
                       "l"(0x14f0000000000000ull) : "memory");
    wait_parity(bar, 0);
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[threadIdx.x & 3][threadIdx.x >> 4 & 15][threadIdx.x & 15];
}

extern "C" __global__ void bulk_copy_reduce(const float* in, float* out, unsigned* sums) {
    __shared__ __align__(16) float buffer[1024];
    __shared__ __align__(8) unsigned long long barrier;
    unsigned bar = shared_address(&barrier), smem = shared_address(buffer);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(bar) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 _, [%0], 4096;" ::"r"(bar) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 4096, [%2];"
                     ::"r"(smem), "l"(in), "r"(bar) : "memory");
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], 4096;" ::"l"(in + 1024));
    }
    __syncthreads();
    wait_parity(bar, 0);
    buffer[threadIdx.x] += 1;
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 4096;" ::"l"(out), "r"(smem) : "memory");
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.max.u32 [%0], [%1], 64;" ::"l"(sums), "r"(smem) : "memory");
        asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;" ::: "memory");
    }
}
