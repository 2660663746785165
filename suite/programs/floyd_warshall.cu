// Shortest paths between all pairs by blocks of 32 by 32, in three kernels for each pivot.
#include "../timing.h"

const int N = 256, B = 32;

__global__ void pivot_block(int *d, int k)
{
    __shared__ int tile[B][B];
    int x = threadIdx.x, y = threadIdx.y, at = (k * B + y) * N + k * B + x;
    tile[y][x] = d[at];
    __syncthreads();
    for (int i = 0; i < B; i++) {
        int through = tile[y][i] + tile[i][x];
        __syncthreads();
        tile[y][x] = min(tile[y][x], through);
        __syncthreads();
    }
    d[at] = tile[y][x];
}

// Blocks in the row and in the column of the pivot.
__global__ void cross(int *d, int k)
{
    __shared__ int pivot[B][B], tile[B][B];
    int x = threadIdx.x, y = threadIdx.y, other = blockIdx.x + (blockIdx.x >= k);
    bool is_row = blockIdx.y == 0;
    int at = is_row ? (k * B + y) * N + other * B + x : (other * B + y) * N + k * B + x;
    pivot[y][x] = d[(k * B + y) * N + k * B + x];
    tile[y][x] = d[at];
    __syncthreads();
    for (int i = 0; i < B; i++) {
        int through = is_row ? pivot[y][i] + tile[i][x] : tile[y][i] + pivot[i][x];
        __syncthreads();
        tile[y][x] = min(tile[y][x], through);
        __syncthreads();
    }
    d[at] = tile[y][x];
}

__global__ void rest(int *d, int k)
{
    __shared__ int column[B][B], row[B][B];
    int x = threadIdx.x, y = threadIdx.y, i = blockIdx.y + (blockIdx.y >= k), j = blockIdx.x + (blockIdx.x >= k);
    int at = (i * B + y) * N + j * B + x, best = d[at];
    column[y][x] = d[(i * B + y) * N + k * B + x];
    row[y][x] = d[(k * B + y) * N + j * B + x];
    __syncthreads();
#pragma unroll
    for (int t = 0; t < B; t++)
        best = min(best, column[y][t] + row[t][x]);
    d[at] = best;
}

int main()
{
    suite::Random random(191);
    std::vector<int> d(N * N);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            d[i * N + j] = i == j ? 0 : random.below(10) ? 1000000 : 1 + random.below(1000);
    auto expected = d;
    for (int k = 0; k < N; k++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                expected[i * N + j] = std::min(expected[i * N + j], expected[i * N + k] + expected[k * N + j]);
    suite::Device<int> distances(d);
    dim3 block(B, B);
    auto all = [&] {
        for (int k = 0; k < N / B; k++) {
            pivot_block<<<1, block>>>(distances, k);
            cross<<<dim3(N / B - 1, 2), block>>>(distances, k);
            rest<<<dim3(N / B - 1, N / B - 1), block>>>(distances, k);
        }
    };
    all();
    suite::equal("distances", distances.host(), expected);
    long long sum = 0;
    for (int v : expected)
        sum += v;
    printf("sum of distances %lld\n", sum);
    suite::timed("all", all);
    suite::timed("pivot", [&] { pivot_block<<<1, block>>>(distances, 0); });
    suite::timed("rest", [&] { rest<<<dim3(N / B - 1, N / B - 1), block>>>(distances, 0); });
    return suite::finish();
}
