// Sorts words by digits of 4 bits: count, scan, scatter, in kernels of their own; stable, with values that follow the keys.
#include "../timing.h"

const int BLOCK = 256, ITEMS = 8, DIGITS = 16;

__global__ void count_digits(const uint32_t *keys, uint32_t *counts, int shift, int n)
{
    __shared__ uint32_t local[DIGITS];
    if (threadIdx.x < DIGITS)
        local[threadIdx.x] = 0;
    __syncthreads();
    int start = blockIdx.x * BLOCK * ITEMS;
    for (int i = 0; i < ITEMS; i++) {
        int at = start + i * BLOCK + threadIdx.x;
        if (at < n)
            atomicAdd(&local[keys[at] >> shift & (DIGITS - 1)], 1u);
    }
    __syncthreads();
    if (threadIdx.x < DIGITS)
        counts[threadIdx.x * gridDim.x + blockIdx.x] = local[threadIdx.x];
}

// Exclusive prefix sums of all counts by one block.
__global__ void scan_counts(uint32_t *counts, int n)
{
    __shared__ uint32_t warps[32];
    uint32_t carry = 0, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int start = 0; start < n; start += blockDim.x) {
        int at = start + threadIdx.x;
        uint32_t own = at < n ? counts[at] : 0, sum = own;
        for (int step = 1; step < 32; step *= 2) {
            uint32_t other = __shfl_up_sync(~0u, sum, step);
            if (lane >= step)
                sum += other;
        }
        if (lane == 31)
            warps[warp] = sum;
        __syncthreads();
        if (warp == 0) {
            uint32_t part = warps[lane];
            for (int step = 1; step < 32; step *= 2) {
                uint32_t other = __shfl_up_sync(~0u, part, step);
                if (lane >= step)
                    part += other;
            }
            warps[lane] = part;
        }
        __syncthreads();
        uint32_t before = carry + (warp ? warps[warp - 1] : 0);
        if (at < n)
            counts[at] = before + sum - own;
        carry += warps[31];
        __syncthreads();
    }
}

// A stable scatter: each warp ranks its lanes by the mask of lanes with the same digit, and warps take turns.
__global__ void scatter(const uint32_t *keys, const uint32_t *values, uint32_t *new_keys, uint32_t *new_values, const uint32_t *starts, int shift, int n)
{
    __shared__ uint32_t next[DIGITS];
    if (threadIdx.x < DIGITS)
        next[threadIdx.x] = starts[threadIdx.x * gridDim.x + blockIdx.x];
    __syncthreads();
    uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int i = 0; i < ITEMS; i++) {
        int at = blockIdx.x * BLOCK * ITEMS + i * BLOCK + threadIdx.x;
        uint32_t key = at < n ? keys[at] : ~0u, digit = at < n ? key >> shift & (DIGITS - 1) : DIGITS;
        uint32_t same = __match_any_sync(~0u, digit);
        uint32_t rank = __popc(same & ((1u << lane) - 1)), place = 0;
        for (int turn = 0; turn < BLOCK / 32; turn++) {
            if (turn == warp && at < n) {
                place = next[digit] + rank;
                __syncwarp(same);
                if (rank == 0)
                    next[digit] += __popc(same);
            }
            __syncthreads();
        }
        if (at < n) {
            new_keys[place] = key;
            new_values[place] = values[at];
        }
    }
}

int main()
{
    const int n = 1 << 18, blocks = (n + BLOCK * ITEMS - 1) / (BLOCK * ITEMS);
    auto keys = suite::words(n, 3);
    std::vector<uint32_t> values(n), order(n);
    for (int i = 0; i < n; i++)
        keys[i] &= 0xffffff, values[i] = order[i] = i;
    suite::Device<uint32_t> key_a(keys), key_b(n), value_a(values), value_b(n), counts(DIGITS * blocks);
    auto sort = [&] {
        uint32_t *from = key_a, *to = key_b, *from_values = value_a, *to_values = value_b;
        for (int shift = 0; shift < 24; shift += 4) {
            count_digits<<<blocks, BLOCK>>>(from, counts, shift, n);
            scan_counts<<<1, 1024>>>(counts, DIGITS * blocks);
            scatter<<<blocks, BLOCK>>>(from, from_values, to, to_values, counts, shift, n);
            std::swap(from, to);
            std::swap(from_values, to_values);
        }
    };
    sort();
    std::stable_sort(order.begin(), order.end(), [&](uint32_t x, uint32_t y) { return keys[x] < keys[y]; });
    std::vector<uint32_t> sorted(n);
    for (int i = 0; i < n; i++)
        sorted[i] = keys[order[i]];
    suite::equal("keys", key_a.host(), sorted);
    suite::equal("values", value_a.host(), order);
    suite::timed("sort", sort);
    return suite::finish();
}
