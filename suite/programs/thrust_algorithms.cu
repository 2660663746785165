// Algorithms of Thrust: sort by key, scan, reduce by key, and a sum of squares with a functor.
// suite: needs=thrust/sort.h
#include "../timing.h"

#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>

struct Squared {
    __host__ __device__ unsigned long long operator()(uint32_t v) const { return (unsigned long long)(v & 0xffff) * (v & 0xffff); }
};

int main()
{
    const int n = 1 << 18;
    auto words = suite::words(n, 381);
    for (uint32_t &word : words)
        word &= 0xffff;
    std::vector<uint32_t> order(n), sorted(n), scanned(n), distinct, sums;
    for (int i = 0; i < n; i++)
        order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return words[a] < words[b]; });
    unsigned long long squares = 0;
    uint32_t sum = 0;
    for (int i = 0; i < n; i++) {
        sorted[i] = words[order[i]];
        squares += Squared()(words[i]);
        scanned[i] = sum;
        sum += words[i];
        if (i == 0 || sorted[i] != sorted[i - 1]) {
            distinct.push_back(sorted[i]);
            sums.push_back(0);
        }
        sums.back() += order[i];
    }
    thrust::device_vector<uint32_t> keys(words.begin(), words.end()), values(n), scan(n), heads(n), totals(n);
    thrust::sequence(values.begin(), values.end());
    unsigned long long got = thrust::transform_reduce(keys.begin(), keys.end(), Squared(), 0ull, thrust::plus<unsigned long long>());
    suite::equal("squares", got, squares);
    thrust::exclusive_scan(keys.begin(), keys.end(), scan.begin());
    thrust::stable_sort_by_key(keys.begin(), keys.end(), values.begin());
    auto ends = thrust::reduce_by_key(keys.begin(), keys.end(), values.begin(), heads.begin(), totals.begin());
    int found = ends.first - heads.begin();
    auto host = [](const thrust::device_vector<uint32_t> &v, size_t count) {
        std::vector<uint32_t> out(count);
        thrust::copy(v.begin(), v.begin() + count, out.begin());
        return out;
    };
    suite::equal("scan", host(scan, n), scanned);
    suite::equal("keys", host(keys, n), sorted);
    suite::equal("values", host(values, n), order);
    suite::equal("distinct", host(heads, found), distinct);
    suite::equal("sums", host(totals, found), sums);
    // Thrust allocates memory between its kernels, so events would not show their times.
    return suite::finish();
}
