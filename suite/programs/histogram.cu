// Histograms: atomics in shared memory, private copies for each warp, and atomics in global memory; integers and floats.
#include "../timing.h"

__global__ void shared_bins(const unsigned char *x, uint32_t *bins, int n)
{
    __shared__ uint32_t local[256];
    local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[x[i]], 1u);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

// Each warp has its own bins; four bytes at a time.
__global__ void warp_bins(const uint32_t *x, uint32_t *bins, int words)
{
    __shared__ uint32_t local[8][256];
    for (int i = threadIdx.x; i < 8 * 256; i += blockDim.x)
        local[i / 256][i % 256] = 0;
    __syncthreads();
    uint32_t *own = local[threadIdx.x / 32];
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
        uint32_t word = x[i];
        atomicAdd(&own[word & 255], 1u);
        atomicAdd(&own[word >> 8 & 255], 1u);
        atomicAdd(&own[word >> 16 & 255], 1u);
        atomicAdd(&own[word >> 24], 1u);
    }
    __syncthreads();
    uint32_t sum = 0;
    for (int i = 0; i < 8; i++)
        sum += local[i][threadIdx.x];
    if (sum)
        atomicAdd(&bins[threadIdx.x], sum);
}

// Weights that are multiples of 1/16, so that sums do not depend on the order.
__global__ void weighted(const unsigned char *x, float *bins, int n)
{
    __shared__ float local[256];
    local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[x[i]], (i & 15) * 0.0625f);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

__global__ void extremes(const uint32_t *x, uint32_t *least, uint32_t *most, unsigned long long *sum, int words)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
        atomicMin(&least[x[i] & 63], x[i]);
        atomicMax(&most[x[i] & 63], x[i]);
        atomicAdd(&sum[x[i] & 63], (unsigned long long)x[i]);
    }
}

int main()
{
    const int words = 1 << 18, n = words * 4;
    auto x = suite::words(words, 51);
    const unsigned char *bytes = (const unsigned char *)x.data();
    std::vector<uint32_t> bins(256), least(64, ~0u), most(64);
    std::vector<float> weights(256);
    std::vector<unsigned long long> sums(64);
    for (int i = 0; i < n; i++) {
        bins[bytes[i]]++;
        weights[bytes[i]] += (i & 15) * 0.0625f;
    }
    for (uint32_t word : x) {
        least[word & 63] = std::min(least[word & 63], word);
        most[word & 63] = std::max(most[word & 63], word);
        sums[word & 63] += word;
    }
    suite::Device<uint32_t> in(x), out(256), low(std::vector<uint32_t>(64, ~0u)), high(64);
    suite::Device<float> floats(256);
    suite::Device<unsigned long long> totals(64);
    auto shared = [&] { shared_bins<<<128, 256>>>((const unsigned char *)in.data(), out, n); };
    auto warps = [&] { warp_bins<<<128, 256>>>(in, out, words); };
    auto weigh = [&] { weighted<<<128, 256>>>((const unsigned char *)in.data(), floats, n); };
    auto ends = [&] { extremes<<<128, 256>>>(in, low, high, totals, words); };
    shared();
    suite::equal("shared", out.host(), bins);
    out.clear();
    warps();
    suite::equal("warps", out.host(), bins);
    weigh();
    suite::equal("weighted", floats.host(), weights);
    ends();
    suite::equal("least", low.host(), least);
    suite::equal("most", high.host(), most);
    suite::equal("sums", totals.host(), sums);
    suite::timed("shared", shared);
    suite::timed("warps", warps);
    suite::timed("weighted", weigh);
    suite::timed("extremes", ends);
    return suite::finish();
}
