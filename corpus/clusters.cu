// Thread-block clusters: distributed shared memory, remote atomics, mapa and getctarank, cluster barriers, elect.
// oriole: arch=compute_90
// oriole: arch=compute_100
// oriole: arch=compute_90 options=-lineinfo tag=lineinfo

__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(128) ring_exchange(const float* in, float* out) {
    __shared__ float box[128];
    unsigned rank, size, remote;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    box[threadIdx.x] = in[blockIdx.x * 128 + threadIdx.x];
    asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(shared_address(&box[127 - threadIdx.x])), "r"((rank + 1) % size));
    float v;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(remote) : "memory");
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
    out[blockIdx.x * 128 + threadIdx.x] = v;
    asm volatile("barrier.cluster.wait;" ::: "memory");
}

extern "C" __global__ void __cluster_dims__(2, 2, 1) cluster_histogram(const int* in, int* bins, int n) {
    extern __shared__ int part[];
    int id, x, y, nx;
    asm("mov.u32 %0, %%clusterid.x;" : "=r"(id));
    asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(x));
    asm("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(y));
    asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(nx));
    for (int i = threadIdx.x; i < 256; i += blockDim.x) part[i] = 0;
    asm volatile("barrier.cluster.arrive;\n\tbarrier.cluster.wait;" ::: "memory");
    for (int i = (y * nx + x) * blockDim.x + threadIdx.x; i < n; i += 4 * blockDim.x) {
        int bin = in[i] & 1023;
        unsigned there;
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(part + (bin & 255))), "r"(bin >> 8));
        asm volatile("red.shared::cluster.add.u32 [%0], 1;" ::"r"(there) : "memory");
    }
    asm volatile("barrier.cluster.arrive;\n\tbarrier.cluster.wait;" ::: "memory");
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[(y * nx + x) * 256 + i], part[i] + id);
}

// One elected lane issues; a remote barrier is told; st.async carries its own transaction count.
extern "C" __global__ void __cluster_dims__(2) remote_signal(int* out) {
    __shared__ __align__(8) unsigned long long barrier;
    __shared__ int mail[32];
    unsigned bar = shared_address(&barrier), elected, leader, rank, remote_bar, remote_mail;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("{\n\t.reg .pred p;\n\telect.sync %1|p, -1;\n\tselp.u32 %0, 1, 0, p;\n\t}" : "=r"(elected), "=r"(leader));
    if (elected) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
        asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 128;" ::"r"(bar) : "memory");
    }
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote_bar) : "r"(bar), "r"(rank ^ 1));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote_mail) : "r"(shared_address(mail + (threadIdx.x & 31))), "r"(rank ^ 1));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"
                 ::"r"(remote_mail), "r"(threadIdx.x * 3), "r"(remote_bar) : "memory");
    if (elected) asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(remote_bar) : "memory");
    unsigned done = 0;
    while (!done)
        asm volatile("{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0;\n\tselp.u32 %0, 1, 0, p;\n\t}"
                     : "=r"(done) : "r"(bar) : "memory");
    out[blockIdx.x * 32 + (threadIdx.x & 31)] = mail[31 - (threadIdx.x & 31)] + leader;
}

// Dependent launch: wait for the grid before, let the grid after start early; register budgets move between warps.
extern "C" __global__ void __launch_bounds__(256) dependent_launch(const float* in, float* out) {
    float w = 0.5f * threadIdx.x;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    out[blockIdx.x * 256 + threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x] * w;
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
