// Warp-wide operations: votes, match, redux, active masks, lane registers, and aggregated atomics.
// oriole: arch=compute_80

extern "C" __global__ void votes(const int* in, unsigned* out, int threshold) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];
    unsigned b = __ballot_sync(0xffffffff, v > threshold);
    int all = __all_sync(0xffffffff, v != 0), any = __any_sync(0xffffffff, v == 7);
    int uniform, same = __match_all_sync(0xffffffff, v & 3, &uniform);
    unsigned peers = __match_any_sync(0xffffffff, (unsigned long long)v);
    out[i] = b + all + 2 * any + same + uniform + peers;
    if (v & 1) out[i] ^= __activemask();
    __syncwarp();
}

extern "C" __global__ void redux(const int* in, int* out) {
    int v = in[threadIdx.x];
    unsigned u = v;
    out[0] = __reduce_add_sync(~0u, v) + __reduce_min_sync(~0u, v) + (int)__reduce_max_sync(~0u, u);
    out[1] = __reduce_and_sync(~0u, u) ^ __reduce_or_sync(~0u, u) ^ __reduce_xor_sync(~0u, u);
}

// One atomic per group of lanes that want the same counter.
extern "C" __global__ void aggregated_increment(const unsigned char* keys, unsigned* counters, unsigned* ticket, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned lane_mask_lt, lane;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lane_mask_lt));
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    unsigned group = __match_any_sync(__activemask(), keys[i]);
    int leader = __ffs(group) - 1;
    unsigned base = 0;
    if ((int)lane == leader) base = atomicAdd(&counters[keys[i]], __popc(group));
    base = __shfl_sync(group, base, leader);
    ticket[i] = base + __popc(group & lane_mask_lt);
}

extern "C" __global__ void special_registers(unsigned long long* out) {
    unsigned r;
    unsigned long long w, sum = 0;
#define ADD32(name) asm volatile("mov.u32 %0, %%" name ";" : "=r"(r)); sum += r
#define ADD64(name) asm volatile("mov.u64 %0, %%" name ";" : "=l"(w)); sum += w
    ADD32("warpid"); ADD32("nwarpid"); ADD32("smid"); ADD32("nsmid"); ADD32("clock"); ADD32("clock_hi");
    ADD32("lanemask_eq"); ADD32("lanemask_le"); ADD32("lanemask_ge"); ADD32("lanemask_gt"); ADD32("tid.z");
    ADD32("ctaid.z"); ADD32("nctaid.y"); ADD32("ntid.z"); ADD32("total_smem_size"); ADD32("dynamic_smem_size");
    ADD32("globaltimer_lo"); ADD32("globaltimer_hi"); ADD32("envreg3"); ADD32("pm0");
    ADD64("gridid"); ADD64("clock64"); ADD64("globaltimer");
    out[threadIdx.x] = sum;
}
