// Clusters of points by k-means: distances with centers in shared memory, sums by atomics on integers so that the order does not matter.
#include "../timing.h"

#include <climits>

const int DIMENSIONS = 4, CENTERS = 16;

__global__ void assign(const int4 *points, const int4 *centers, int *labels, int n)
{
    __shared__ int4 local[CENTERS];
    if (threadIdx.x < CENTERS)
        local[threadIdx.x] = centers[threadIdx.x];
    __syncthreads();
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n)
        return;
    int4 p = points[at];
    int best = 0;
    long long nearest = LLONG_MAX;
    for (int i = 0; i < CENTERS; i++) {
        int4 c = local[i];
        long long dx = p.x - c.x, dy = p.y - c.y, dz = p.z - c.z, dw = p.w - c.w, square = dx * dx + dy * dy + dz * dz + dw * dw;
        if (square < nearest) {
            nearest = square;
            best = i;
        }
    }
    labels[at] = best;
}

__global__ void gather(const int *points, const int *labels, unsigned long long *sums, unsigned *counts, int n)
{
    __shared__ unsigned long long local[CENTERS][DIMENSIONS];
    __shared__ unsigned used[CENTERS];
    if (threadIdx.x < CENTERS * DIMENSIONS)
        local[threadIdx.x / DIMENSIONS][threadIdx.x % DIMENSIONS] = 0;
    if (threadIdx.x < CENTERS)
        used[threadIdx.x] = 0;
    __syncthreads();
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += gridDim.x * blockDim.x) {
        atomicAdd(&used[labels[at]], 1u);
        for (int k = 0; k < DIMENSIONS; k++)
            atomicAdd(&local[labels[at]][k], (unsigned long long)(long long)points[at * DIMENSIONS + k]);
    }
    __syncthreads();
    if (threadIdx.x < CENTERS * DIMENSIONS)
        atomicAdd(&sums[threadIdx.x], local[threadIdx.x / DIMENSIONS][threadIdx.x % DIMENSIONS]);
    if (threadIdx.x < CENTERS)
        atomicAdd(&counts[threadIdx.x], used[threadIdx.x]);
}

__global__ void update(int *centers, unsigned long long *sums, unsigned *counts)
{
    int at = threadIdx.x;
    if (counts[at / DIMENSIONS])
        centers[at] = int((long long)sums[at] / (long long)counts[at / DIMENSIONS]);
    __syncthreads();
    sums[at] = 0;
    if (at < CENTERS)
        counts[at] = 0;
}

int main()
{
    const int n = 1 << 15, rounds = 8;
    suite::Random random(321);
    std::vector<int> points(n * DIMENSIONS), centers(CENTERS * DIMENSIONS), labels(n);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < DIMENSIONS; k++)
            points[i * DIMENSIONS + k] = int(random.below(20000)) - 10000 + (i % CENTERS * (k + 3) % 7) * 20000;
    for (int i = 0; i < CENTERS * DIMENSIONS; i++)
        centers[i] = points[i];
    suite::Device<int> p(points), c(centers), l(n);
    suite::Device<unsigned long long> sums(CENTERS * DIMENSIONS);
    suite::Device<unsigned> counts(CENTERS);
    auto first = [&] { assign<<<n / 128, 128>>>((const int4 *)p.data(), (const int4 *)c.data(), l, n); };
    auto second = [&] { gather<<<64, 256>>>(p, l, sums, counts, n); };
    auto third = [&] { update<<<1, CENTERS * DIMENSIONS>>>(c, sums, counts); };
    for (int round = 0; round < rounds; round++) {
        first(), second(), third();
        std::vector<long long> total(CENTERS * DIMENSIONS), used(CENTERS);
        for (int i = 0; i < n; i++) {
            long long nearest = LLONG_MAX;
            for (int j = 0; j < CENTERS; j++) {
                long long square = 0;
                for (int k = 0; k < DIMENSIONS; k++) {
                    long long d = points[i * DIMENSIONS + k] - centers[j * DIMENSIONS + k];
                    square += d * d;
                }
                if (square < nearest) {
                    nearest = square;
                    labels[i] = j;
                }
            }
            used[labels[i]]++;
            for (int k = 0; k < DIMENSIONS; k++)
                total[labels[i] * DIMENSIONS + k] += points[i * DIMENSIONS + k];
        }
        for (int i = 0; i < CENTERS * DIMENSIONS; i++)
            if (used[i / DIMENSIONS])
                centers[i] = int(total[i] / used[i / DIMENSIONS]);
    }
    suite::equal("labels", l.host(), labels);
    suite::equal("centers", c.host(), centers);
    suite::timed("assign", first);
    suite::timed("gather", second);
    return suite::finish();
}
