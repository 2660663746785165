// Finds out whether the 32 threads of a warp that test one barrier in memory together can get different results. Warp 0 polls a barrier; each
// phase ends after a random delay by an arrival or a bulk copy. A poll is "mixed" if some threads see the end of the phase and others do not.
//
//   nvcc -arch=sm_90a -O3 -o barrier_test barrier_test.cu && ./barrier_test
//
// Fails if a poll of one barrier is mixed, or if no poll of the control is: there, each thread has its own barrier, and the barriers
// complete one after the other. The uniformity analysis (crates/ir/src/analysis/uniformity.rs) relies on the result.
#include <cstdint>
#include <cstdio>

#define CHECK(call) \
    do { \
        cudaError_t error = (call); \
        if (error) { \
            printf("%s in line %d\n", cudaGetErrorString(error), __LINE__); \
            return 2; \
        } \
    } while (0)

enum Mode { TestArrival, TryArrival, Control, TryBulkCopy, TestRemoteArrival, Modes };
static const char* const names[Modes] = {"test_wait, arrival", "try_wait, arrival", "control", "try_wait, bulk copy", "test_wait, arrival from another block"};
static const int phases[Modes] = {3000000, 3000000, 30000, 1000000, 1000000};

__device__ unsigned shared_address(const void* pointer) { return (unsigned)__cvta_generic_to_shared(pointer); }

__device__ void cluster_sync() { asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory"); }

// Ends one phase. `barrier` is the first barrier, `random` a random number.
template <Mode MODE> __device__ void end_phase(unsigned barrier, unsigned buffer, const uint4* data, unsigned random, unsigned peer) {
    unsigned lane = threadIdx.x & 31;
    if (MODE == Control) {
        for (unsigned turn = 0; turn < 32; turn++)
            if (lane == turn) asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(barrier + 8 * lane));
    } else if (lane != 0) {
    } else if (MODE == TryBulkCopy) {
        unsigned bytes = 16 << (random >> 20 & 7);
        asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared.b64 s, [%0], %1; }" ::"r"(barrier), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(buffer),
                     "l"(data + (random >> 8 & 4095)), "r"(bytes), "r"(barrier)
                     : "memory");
    } else if (MODE == TestRemoteArrival) {
        asm volatile("{ .reg .b32 a; mapa.shared::cluster.u32 a, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [a]; }" ::"r"(barrier), "r"(peer)
                     : "memory");
    } else {
        asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(barrier));
    }
}

template <Mode MODE> __device__ unsigned poll(unsigned barrier, unsigned parity) {
    unsigned done;
    if (MODE == TryArrival || MODE == TryBulkCopy)
        asm volatile("{ .reg .pred q; mbarrier.try_wait.parity.shared.b64 q, [%1], %2; selp.u32 %0, 1, 0, q; }" : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    else
        asm volatile("{ .reg .pred q; mbarrier.test_wait.parity.shared.b64 q, [%1], %2; selp.u32 %0, 1, 0, q; }" : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    return done;
}

// counts: mixed polls, polls, phases. The offsets of the barriers come from memory, so that the compiler does not know that they are equal.
template <Mode MODE> __device__ void test(int phases, const unsigned* offsets, const uint4* data, unsigned long long* counts) {
    __shared__ uint64_t barriers[32];
    __shared__ alignas(128) uint4 buffer[256];
    __shared__ volatile int turn;
    unsigned first = shared_address(barriers), lane = threadIdx.x & 31, rank = 0;
    if (threadIdx.x < 32) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(first + 8 * lane));
    if (threadIdx.x == 0) turn = 0;
    __syncthreads();
    if (MODE == TestRemoteArrival) {
        asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        cluster_sync();
    }
    unsigned mine = first + offsets[lane];
    if (threadIdx.x >= 32) {
        unsigned random = blockIdx.x * 977 + 1;
        for (int phase = 0; phase < phases; phase++) {
            while (turn < phase) {}
            random = random * 1664525 + 1013904223;
            long long start = clock64();
            while (clock64() < start + (random >> 24)) {}
            end_phase<MODE>(first, shared_address(buffer), data, random, rank ^ 1);
            __syncwarp();
        }
    } else {
        unsigned long long mixed = 0, polls = 0;
        for (int phase = 0; phase < phases; phase++) {
            if (lane == 0) turn = phase;
            __syncwarp();
            unsigned done;
            do {
                done = __ballot_sync(~0u, poll<MODE>(mine, phase & 1));
                polls++;
                mixed += done != 0 && done != ~0u;
            } while (done != ~0u);
        }
        if (lane == 0) {
            atomicAdd(counts, mixed);
            atomicAdd(counts + 1, polls);
            atomicAdd(counts + 2, (unsigned long long)phases);
        }
    }
    if (MODE == TestRemoteArrival) cluster_sync();
}

template <Mode MODE> __global__ void kernel(int phases, const unsigned* offsets, const uint4* data, unsigned long long* counts) {
    test<MODE>(phases, offsets, data, counts);
}
__global__ void __cluster_dims__(2, 1, 1) pairs(int phases, const unsigned* offsets, const uint4* data, unsigned long long* counts) {
    test<TestRemoteArrival>(phases, offsets, data, counts);
}

int main() {
    unsigned host[32], *offsets;
    unsigned long long *counts, result[3];
    uint4* data;
    bool failed = false;
    CHECK(cudaMalloc(&offsets, sizeof host));
    CHECK(cudaMalloc(&counts, sizeof result));
    CHECK(cudaMalloc(&data, 1 << 20));
    CHECK(cudaMemset(data, 0, 1 << 20));
    for (int mode = 0; mode < Modes; mode++) {
        for (int lane = 0; lane < 32; lane++) host[lane] = mode == Control ? 8 * lane : 0;
        CHECK(cudaMemcpy(offsets, host, sizeof host, cudaMemcpyHostToDevice));
        CHECK(cudaMemset(counts, 0, sizeof result));
        switch (mode) {
        case TestArrival: kernel<TestArrival><<<1056, 64>>>(phases[mode], offsets, data, counts); break;
        case TryArrival: kernel<TryArrival><<<1056, 64>>>(phases[mode], offsets, data, counts); break;
        case Control: kernel<Control><<<1056, 64>>>(phases[mode], offsets, data, counts); break;
        case TryBulkCopy: kernel<TryBulkCopy><<<1056, 64>>>(phases[mode], offsets, data, counts); break;
        case TestRemoteArrival: pairs<<<264, 64>>>(phases[mode], offsets, data, counts); break;
        }
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(result, counts, sizeof result, cudaMemcpyDeviceToHost));
        printf("%s: %llu phases, %llu polls, %llu mixed\n", names[mode], result[2], result[1], result[0]);
        failed |= (result[0] == 0) == (mode == Control);
    }
    return failed;
}
