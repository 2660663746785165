// Matrix products in the style of CUTLASS and DeepGEMM: persistent and warp-specialized, tiles by TMA with multicast in a cluster of two
// blocks, register reallocation, bf16, and fp8 with sums that are scaled and promoted to float.
// oriole: arch=compute_90a

typedef unsigned long long u64;
struct alignas(64) TensorMap { u64 opaque[16]; };

__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// Matrix descriptor: start address, 1,024 bytes between groups of eight rows, 128-byte swizzle.
__device__ __forceinline__ u64 descriptor(unsigned address) {
    return (u64)((address & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
}

__device__ __forceinline__ void make_barrier(unsigned bar, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}

__device__ __forceinline__ void wait_parity(unsigned bar, unsigned parity) {
    asm volatile("{\n\t.reg .pred ready;\n\tspin:\n\tmbarrier.try_wait.parity.shared::cta.b64 ready, [%0], %1;\n\t"
                 "@!ready bra spin;\n\t}" ::"r"(bar), "r"(parity) : "memory");
}

__device__ __forceinline__ void expect(unsigned bar, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

// Arrives at the barrier at the same place in another block of the cluster.
__device__ __forceinline__ void arrive_at(unsigned bar, unsigned rank) {
    asm volatile("{\n\t.reg .b32 remote;\n\tmapa.shared::cluster.u32 remote, %0, %1;\n\t"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n\t}" ::"r"(bar), "r"(rank) : "memory");
}

__device__ __forceinline__ void arrive(unsigned bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

__device__ __forceinline__ void load_box(unsigned to, const TensorMap* map, int x, int y, unsigned bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(bar) : "memory");
}

__device__ __forceinline__ void load_box_to(unsigned to, const TensorMap* map, int x, int y, unsigned bar, unsigned short blocks) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(bar), "h"(blocks) : "memory");
}

#define EIGHT(d, i) \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define ALL(d) EIGHT(d, 0), EIGHT(d, 8), EIGHT(d, 16), EIGHT(d, 24), EIGHT(d, 32), EIGHT(d, 40), EIGHT(d, 48), EIGHT(d, 56)
#define REGISTERS \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
    "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, " \
    "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, " \
    "%62, %63}, "

__device__ __forceinline__ void multiply_bf16(float (&d)[64], u64 a, u64 b, int accumulate) {
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %66, 0;\n\twgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " REGISTERS
                 "%64, %65, p, 1, 1, 0, 0;\n\t}" : ALL(d) : "l"(a), "l"(b), "r"(accumulate));
}

__device__ __forceinline__ void multiply_fp8(float (&d)[64], u64 a, u64 b, int accumulate) {
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %66, 0;\n\twgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 " REGISTERS
                 "%64, %65, p, 1, 1;\n\t}" : ALL(d) : "l"(a), "l"(b), "r"(accumulate));
}

__device__ __forceinline__ void start_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int left> __device__ __forceinline__ void wait_products(float (&d)[64]) {
    asm volatile("wgmma.wait_group.sync.aligned %64;" : ALL(d) : "n"(left) : "memory");
}

__device__ __forceinline__ void sync_cluster() {
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}

// Writes the 64 x 128 sums of a warpgroup.
__device__ __forceinline__ void write_sums(const float (&d)[64], float* c, int row, int column, int width) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
    float* at = c + (size_t)(row + warp * 16 + (lane >> 2)) * width + column + (lane & 3) * 2;
#pragma unroll
    for (int j = 0; j < 16; ++j) {
        *(float2*)(at + 8 * j) = make_float2(d[4 * j], d[4 * j + 1]);
        *(float2*)(at + 8 * width + 8 * j) = make_float2(d[4 * j + 2], d[4 * j + 3]);
    }
}

constexpr int STAGES = 4, BOX = 16384, STAGE = 2 * BOX;

// C = A * B^T in bf16 with tiles of 128 x 128 for each block. The two blocks of a cluster have tiles below each other; each loads half of the
// columns' tile for both. A and B are K-major; boxes of A have 64 x 128 elements, boxes of B 64 x 64.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
    gemm_bf16_multicast(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, float* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char stages[];
    __shared__ __align__(8) u64 barriers[2 * STAGES];
    unsigned full = shared_address(barriers), empty = full + 8 * STAGES, base = shared_address(stages) + 1023 & ~1023u, rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            make_barrier(full + 8 * i, 1);
            make_barrier(empty + 8 * i, 16);  // eight consumer warps in each of two blocks
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    sync_cluster();
    int columns = n / 128, tiles = m / 256 * columns, steps = k / 64, group = threadIdx.x / 128;
    if (group == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 256) {
            unsigned step = 0;
            for (int tile = blockIdx.x / 2; tile < tiles; tile += gridDim.x / 2) {
                int row = tile / columns * 256 + rank * 128, column = tile % columns * 128 + rank * 64;
                for (int s = 0; s < steps; ++s, ++step) {
                    unsigned i = step % STAGES, bar = full + 8 * i, to = base + i * STAGE;
                    wait_parity(empty + 8 * i, (step / STAGES & 1) ^ 1);
                    expect(bar, STAGE);
                    load_box(to, &map_a, s * 64, row, bar);
                    load_box_to(to + BOX + rank * (BOX / 2), &map_b, s * 64, column, bar, 3);
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        unsigned step = 0;
        for (int tile = blockIdx.x / 2; tile < tiles; tile += gridDim.x / 2) {
            float d[64];
            for (int s = 0; s < steps; ++s, ++step) {
                unsigned i = step % STAGES, a = base + i * STAGE + group * (BOX / 2), b = base + i * STAGE + BOX;
                wait_parity(full + 8 * i, step / STAGES & 1);
                start_products();
#pragma unroll
                for (int j = 0; j < 4; ++j) multiply_bf16(d, descriptor(a) + 2 * j, descriptor(b) + 2 * j, s > 0 || j > 0);
                commit_products();
                // The products of the step before are complete: its stage is free.
                wait_products<1>(d);
                if (s > 0 && (threadIdx.x & 31) < 2) arrive_at(empty + 8 * ((step - 1) % STAGES), threadIdx.x & 1);
            }
            wait_products<0>(d);
            if ((threadIdx.x & 31) < 2) arrive_at(empty + 8 * ((step - 1) % STAGES), threadIdx.x & 1);
            write_sums(d, c, tile / columns * 256 + rank * 128 + group * 64, tile % columns * 128, n);
        }
    }
    // No block ends while the other one sends to it.
    sync_cluster();
}

// C = A * B^T in fp8 with a scale for each row of A and each 128 rows of B for 128 elements along K. Sums of 128 products are scaled and added
// in float, since tensor cores keep fewer bits. Boxes of A and B have 128 x 128 elements.
extern "C" __global__ void __launch_bounds__(384, 1)
    gemm_fp8_promoted(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const float* scale_a, const float* scale_b,
                      float* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char stages[];
    __shared__ __align__(8) u64 barriers[2 * STAGES];
    unsigned full = shared_address(barriers), empty = full + 8 * STAGES, base = shared_address(stages) + 1023 & ~1023u;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            make_barrier(full + 8 * i, 1);
            make_barrier(empty + 8 * i, 8);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    int columns = n / 128, tiles = m / 128 * columns, steps = k / 128, group = threadIdx.x / 128;
    if (group == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 256) {
            unsigned step = 0;
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x)
                for (int s = 0; s < steps; ++s, ++step) {
                    unsigned i = step % STAGES, bar = full + 8 * i, to = base + i * STAGE;
                    wait_parity(empty + 8 * i, (step / STAGES & 1) ^ 1);
                    expect(bar, STAGE);
                    load_box(to, &map_a, s * 128, tile / columns * 128, bar);
                    load_box(to + BOX, &map_b, s * 128, tile % columns * 128, bar);
                }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        unsigned step = 0;
        int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            int row = tile / columns * 128 + group * 64;
            const float* scales = scale_a + (size_t)(row + warp * 16 + (lane >> 2)) * steps;
            float sums[64] = {};
            for (int s = 0; s < steps; ++s, ++step) {
                unsigned i = step % STAGES, a = base + i * STAGE + group * (BOX / 2), b = base + i * STAGE + BOX;
                float scale = scale_b[tile % columns * steps + s], upper = scales[s] * scale, lower = scales[8 * steps + s] * scale;
                float d[64];
                wait_parity(full + 8 * i, step / STAGES & 1);
                start_products();
#pragma unroll
                for (int j = 0; j < 4; ++j) multiply_fp8(d, descriptor(a) + 2 * j, descriptor(b) + 2 * j, j > 0);
                commit_products();
                wait_products<0>(d);
                if (lane == 0) arrive(empty + 8 * i);
#pragma unroll
                for (int j = 0; j < 64; j += 4) {
                    sums[j] += d[j] * upper;
                    sums[j + 1] += d[j + 1] * upper;
                    sums[j + 2] += d[j + 2] * lower;
                    sums[j + 3] += d[j + 3] * lower;
                }
            }
            write_sums(sums, c, row, tile % columns * 128, n);
        }
    }
}
