// A hash table with open addressing: insertion by atomicCAS on 64-bit slots, lookup, and counts by key.
#include "../timing.h"

const uint64_t EMPTY = ~0ull;

__host__ __device__ inline uint32_t mix(uint32_t h)
{
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

// The key is in the upper half of a slot, the largest value in the lower.
__global__ void insert(unsigned long long *table, uint32_t mask, const uint32_t *keys, const uint32_t *values, int n)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n)
        return;
    unsigned long long fresh = (unsigned long long)keys[at] << 32 | values[at];
    for (uint32_t slot = mix(keys[at]) & mask;; slot = (slot + 1) & mask) {
        unsigned long long old = table[slot];
        while (old == EMPTY || (old >> 32 == keys[at] && old < fresh)) {
            unsigned long long seen = atomicCAS(&table[slot], old, fresh);
            if (seen == old)
                return;
            old = seen;
        }
        if (old >> 32 == keys[at])
            return;
    }
}

__global__ void look_up(const unsigned long long *table, uint32_t mask, const uint32_t *keys, uint32_t *values, int n)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n)
        return;
    uint32_t slot = mix(keys[at]) & mask, result = ~0u;
    for (unsigned long long word; (word = table[slot]) != EMPTY; slot = (slot + 1) & mask)
        if (word >> 32 == keys[at]) {
            result = (uint32_t)word;
            break;
        }
    values[at] = result;
}

__global__ void count_keys(const unsigned long long *table, int slots, unsigned *count, unsigned long long *sum)
{
    unsigned used = 0;
    unsigned long long total = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < slots; i += gridDim.x * blockDim.x)
        if (table[i] != EMPTY) {
            used++;
            total += (uint32_t)table[i];
        }
    atomicAdd(count, used);
    atomicAdd(sum, total);
}

int main()
{
    const int n = 1 << 17, slots = 1 << 18, queries = 1 << 17;
    suite::Random random(301);
    std::vector<uint32_t> keys(n), values(n), wanted(queries), expected(queries);
    std::vector<std::pair<uint32_t, uint32_t>> pairs(n);
    for (int i = 0; i < n; i++) {
        keys[i] = random.below(100000) * 7919u;
        values[i] = random.bits() >> 1;
        pairs[i] = {keys[i], values[i]};
    }
    std::sort(pairs.begin(), pairs.end());
    unsigned distinct = 0;
    unsigned long long sum = 0;
    for (int i = 0; i < n; i++)
        if (i == n - 1 || pairs[i].first != pairs[i + 1].first) {
            distinct++;
            sum += pairs[i].second;
        }
    for (int i = 0; i < queries; i++) {
        wanted[i] = i % 2 ? keys[random.below(n)] : random.below(200000) * 7919u;
        auto after = std::upper_bound(pairs.begin(), pairs.end(), std::make_pair(wanted[i], ~0u));
        expected[i] = after != pairs.begin() && (after - 1)->first == wanted[i] ? (after - 1)->second : ~0u;
    }
    suite::Device<unsigned long long> table(std::vector<unsigned long long>(slots, EMPTY)), total(1);
    suite::Device<uint32_t> in(keys), with(values), ask(wanted), out(queries);
    suite::Device<unsigned> count(1);
    auto fill = [&] { insert<<<n / 256, 256>>>(table, slots - 1, in, with, n); };
    auto find = [&] { look_up<<<queries / 256, 256>>>(table, slots - 1, ask, out, queries); };
    fill();
    count_keys<<<64, 256>>>(table, slots, count, total);
    suite::equal("keys", count.host()[0], distinct);
    suite::equal("sum", total.host()[0], sum);
    find();
    suite::equal("found", out.host(), expected);
    suite::timed("insert", fill);
    suite::timed("look_up", find);
    suite::timed("count_keys", [&] { count_keys<<<64, 256>>>(table, slots, count, total); });
    return suite::finish();
}
