// Sums and extremes with cooperative groups: tiles, blocks, and the whole grid in one launch.
#include "../timing.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

// Sums of segments of 8 values by tiles of 8 threads.
__global__ void segments(const int *x, int *sums, int n)
{
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = cg::reduce(tile, at < n ? x[at] : 0, cg::plus<int>());
    if (tile.thread_rank() == 0 && at < n)
        sums[at / 8] = sum;
}

// One launch: parts of all blocks, then the sum of the parts after a barrier of the grid.
__global__ void whole(const int *x, long long *parts, long long *out, int *extremes, int n)
{
    cg::grid_group grid = cg::this_grid();
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    __shared__ long long warps[32];
    long long sum = 0;
    int least = 0x7fffffff, most = -0x7fffffff - 1;
    for (int i = grid.thread_rank(); i < n; i += grid.size()) {
        sum += (long long)x[i] * x[i];
        least = min(least, x[i]);
        most = max(most, x[i]);
    }
    for (int step = 16; step; step /= 2)
        sum += warp.shfl_down(sum, step);
    least = cg::reduce(warp, least, cg::less<int>());
    most = cg::reduce(warp, most, cg::greater<int>());
    if (warp.thread_rank() == 0) {
        warps[warp.meta_group_rank()] = sum;
        atomicMin(&extremes[0], least);
        atomicMax(&extremes[1], most);
    }
    block.sync();
    if (block.thread_rank() == 0) {
        long long all = 0;
        for (int i = 0; i < warp.meta_group_size(); i++)
            all += warps[i];
        parts[blockIdx.x] = all;
    }
    grid.sync();
    if (grid.thread_rank() == 0) {
        long long all = 0;
        for (int i = 0; i < gridDim.x; i++)
            all += parts[i];
        *out = all;
    }
}

int main()
{
    const int n = 1 << 20, blocks = 64;
    auto bits = suite::words(n, 31);
    std::vector<int> x(n), sums(n / 8), extremes = {0x7fffffff, -0x7fffffff - 1};
    long long squares = 0;
    for (int i = 0; i < n; i++) {
        x[i] = int(bits[i] % 20001) - 10000;
        sums[i / 8] += x[i];
        squares += (long long)x[i] * x[i];
    }
    std::vector<int> expected = {*std::min_element(x.begin(), x.end()), *std::max_element(x.begin(), x.end())};
    suite::Device<int> in(x), out(n / 8), ends(extremes);
    suite::Device<long long> parts(blocks), total(1);
    auto tiles = [&] { segments<<<n / 256, 256>>>(in, out, n); };
    auto grid = [&] {
        const int *a = in;
        long long *b = parts, *c = total;
        int *d = ends, count = n;
        void *arguments[] = {&a, &b, &c, &d, &count};
        CHECK(cudaLaunchCooperativeKernel((const void *)whole, dim3(blocks), dim3(256), arguments, 0, nullptr));
    };
    tiles();
    suite::equal("segments", out.host(), sums);
    grid();
    suite::equal("squares", total.host(), std::vector<long long>{squares});
    suite::equal("extremes", ends.host(), expected);
    suite::timed("segments", tiles);
    suite::timed("whole", grid);
    return suite::finish();
}
