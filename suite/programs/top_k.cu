// The eight largest elements of rows by lists in registers, medians of rows by bitwise selection, and a global bitonic sort.
#include "../timing.h"

const int WIDTH = 1024, K = 8;

__global__ void largest(const float *x, float *values, int *places)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    float best[K];
    int at[K];
#pragma unroll
    for (int i = 0; i < K; i++) {
        best[i] = -INFINITY;
        at[i] = WIDTH;
    }
    for (int i = lane; i < WIDTH; i += 32) {
        float v = x[row * WIDTH + i];
        int place = i;
#pragma unroll
        for (int k = 0; k < K; k++)
            if (v > best[k]) {
                float old = best[k];
                best[k] = v;
                v = old;
                int from = at[k];
                at[k] = place;
                place = from;
            }
    }
    for (int k = 0; k < K; k++) {
        float most = best[0];
        int place = at[0];
        for (int step = 16; step; step /= 2) {
            float other = __shfl_xor_sync(~0u, most, step);
            int with = __shfl_xor_sync(~0u, place, step);
            if (other > most || (other == most && with < place)) {
                most = other;
                place = with;
            }
        }
        if (at[0] == place) {
#pragma unroll
            for (int i = 0; i < K - 1; i++) {
                best[i] = best[i + 1];
                at[i] = at[i + 1];
            }
            best[K - 1] = -INFINITY;
        }
        if (lane == 0) {
            values[row * K + k] = most;
            places[row * K + k] = place;
        }
    }
}

// The element of a rank, bit by bit from the top: how many elements have the prefix and a zero there?
__global__ void select(const uint32_t *x, uint32_t *out, int rank)
{
    __shared__ int counts[8];
    uint32_t v[4], prefix = 0;
    for (int i = 0; i < 4; i++)
        v[i] = x[blockIdx.x * WIDTH + i * 256 + threadIdx.x];
    for (int bit = 31; bit >= 0; bit--) {
        int zeros = 0;
        for (int i = 0; i < 4; i++)
            zeros += v[i] >> bit == prefix >> bit;
        zeros = __reduce_add_sync(~0u, zeros);
        if (threadIdx.x % 32 == 0)
            counts[threadIdx.x / 32] = zeros;
        __syncthreads();
        int all = 0;
        for (int i = 0; i < 8; i++)
            all += counts[i];
        __syncthreads();
        if (rank >= all) {
            rank -= all;
            prefix |= 1u << bit;
        }
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = prefix;
}

__global__ void bitonic(uint32_t *x, int size, int step)
{
    int thread = blockIdx.x * blockDim.x + threadIdx.x, low = 2 * thread - (thread & (step - 1)), high = low + step;
    uint32_t a = x[low], b = x[high];
    if ((a > b) == ((low & size) == 0)) {
        x[low] = b;
        x[high] = a;
    }
}

int main()
{
    const int rows = 1024, n = 1 << 16;
    auto x = suite::floats(rows * WIDTH, 291);
    auto words = suite::words(rows * WIDTH, 292);
    std::vector<float> values(rows * K);
    std::vector<int> places(rows * K);
    std::vector<uint32_t> medians(rows), sorted(words.begin(), words.begin() + n);
    for (int row = 0; row < rows; row++) {
        std::vector<int> order(WIDTH);
        for (int i = 0; i < WIDTH; i++)
            order[i] = i;
        const float *own = &x[row * WIDTH];
        std::partial_sort(order.begin(), order.begin() + K, order.end(), [&](int a, int b) { return own[a] > own[b] || (own[a] == own[b] && a < b); });
        for (int k = 0; k < K; k++) {
            places[row * K + k] = order[k];
            values[row * K + k] = own[order[k]];
        }
        std::vector<uint32_t> part(words.begin() + row * WIDTH, words.begin() + (row + 1) * WIDTH);
        std::nth_element(part.begin(), part.begin() + WIDTH / 2, part.end());
        medians[row] = part[WIDTH / 2];
    }
    suite::Device<float> in(x), top(rows * K);
    suite::Device<int> where(rows * K);
    suite::Device<uint32_t> bits(words), middle(rows), keys(sorted);
    auto first = [&] { largest<<<rows / 4, 128>>>(in, top, where); };
    auto second = [&] { select<<<rows, 256>>>(bits, middle, WIDTH / 2); };
    auto third = [&] {
        for (int size = 2; size <= n; size *= 2)
            for (int step = size / 2; step; step /= 2)
                bitonic<<<n / 512, 256>>>(keys, size, step);
    };
    first();
    suite::equal("values", top.host(), values);
    suite::equal("places", where.host(), places);
    second();
    suite::equal("medians", middle.host(), medians);
    third();
    std::sort(sorted.begin(), sorted.end());
    suite::equal("sorted", keys.host(), sorted);
    suite::timed("largest", first);
    suite::timed("select", second);
    suite::timed("bitonic", third);
    return suite::finish();
}
