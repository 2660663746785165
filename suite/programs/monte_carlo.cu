// Philox random numbers, checked against the CPU; estimates of pi and of an option's price by counts and sums in a fixed order.
#include "../timing.h"

struct Four {
    uint32_t v[4];
};

__host__ __device__ inline uint32_t high(uint32_t a, uint32_t b)
{
#ifdef __CUDA_ARCH__
    return __umulhi(a, b);
#else
    return uint64_t(a) * b >> 32;
#endif
}

// Philox 4x32 with ten rounds.
__host__ __device__ inline Four philox(uint32_t counter, uint32_t stream, uint32_t k0, uint32_t k1)
{
    Four c = {{counter, stream, 0, 0}};
    for (int round = 0; round < 10; round++) {
        uint32_t h0 = high(0xd2511f53, c.v[0]), l0 = 0xd2511f53 * c.v[0], h1 = high(0xcd9e8d57, c.v[2]), l1 = 0xcd9e8d57 * c.v[2];
        c = {{h1 ^ c.v[1] ^ k0, l1, h0 ^ c.v[3] ^ k1, l0}};
        k0 += 0x9e3779b9;
        k1 += 0xbb67ae85;
    }
    return c;
}

__global__ void numbers(uint4 *out)
{
    uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
    Four r = philox(at, 7, 1, 2);
    out[at] = make_uint4(r.v[0], r.v[1], r.v[2], r.v[3]);
}

// Points inside the quarter circle, in integers: the same count everywhere.
__global__ void inside(unsigned long long *count, int rounds)
{
    uint32_t at = blockIdx.x * blockDim.x + threadIdx.x, found = 0;
    for (int i = 0; i < rounds; i++) {
        Four r = philox(i, at, 3, 4);
        for (int k = 0; k < 4; k += 2) {
            unsigned long long x = r.v[k] >> 1, y = r.v[k + 1] >> 1;
            found += x * x + y * y < 1ull << 62;
        }
    }
    found = __reduce_add_sync(~0u, found);
    if (threadIdx.x % 32 == 0)
        atomicAdd(count, (unsigned long long)found);
}

__global__ void option(float *sums, int rounds)
{
    uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int i = 0; i < rounds; i++) {
        Four r = philox(i, at, 5, 6);
        float u = (r.v[0] + 0.5f) * 0x1p-32f, v = r.v[1] * 0x1p-32f;
        float normal = sqrtf(-2 * logf(u)) * cospif(2 * v);
        sum += fmaxf(0.0f, 100.0f * expf(-0.02f + 0.2f * normal) - 100.0f);
    }
    sums[at] = sum / rounds;
}

int main()
{
    const int threads = 1 << 14, rounds = 32;
    suite::Device<uint4> random(threads);
    suite::Device<unsigned long long> count(1);
    suite::Device<float> prices(threads);
    std::vector<uint32_t> expected(threads * 4), got(threads * 4);
    unsigned long long hits = 0;
    std::vector<double> means(threads);
    for (uint32_t at = 0; at < threads; at++) {
        Four r = philox(at, 7, 1, 2);
        memcpy(&expected[at * 4], r.v, 16);
        for (int i = 0; i < rounds; i++) {
            Four p = philox(i, at, 3, 4), q = philox(i, at, 5, 6);
            for (int k = 0; k < 4; k += 2) {
                unsigned long long x = p.v[k] >> 1, y = p.v[k + 1] >> 1;
                hits += x * x + y * y < 1ull << 62;
            }
            double u = (q.v[0] + 0.5) / 4294967296.0, v = q.v[1] / 4294967296.0;
            double normal = sqrt(-2 * log(u)) * cos(2 * M_PI * v);
            means[at] += std::max(0.0, 100 * exp(-0.02 + 0.2 * normal) - 100) / rounds;
        }
    }
    numbers<<<threads / 128, 128>>>(random);
    auto raw = random.host();
    memcpy(got.data(), raw.data(), threads * 16);
    suite::equal("philox", got, expected);
    inside<<<threads / 128, 128>>>(count, rounds);
    suite::equal("inside", count.host()[0], hits);
    option<<<threads / 128, 128>>>(prices, rounds);
    suite::close("prices", prices.host(), means, 1e-3, 1e-3);
    suite::timed("numbers", [&] { numbers<<<threads / 128, 128>>>(random); });
    suite::timed("inside", [&] { inside<<<threads / 128, 128>>>(count, rounds); });
    suite::timed("option", [&] { option<<<threads / 128, 128>>>(prices, rounds); });
    return suite::finish();
}
