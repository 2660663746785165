// Breadth-first search with a queue of the frontier: atomics on global counters, aggregated by warp, and irregular loads.
#include "../timing.h"

__global__ void expand(const int *starts, const int *targets, int *levels, const int *frontier, int size, int *next, int *next_size, int level)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= size)
        return;
    int node = frontier[at];
    for (int edge = starts[node]; edge < starts[node + 1]; edge++) {
        int target = targets[edge];
        if (levels[target] < 0 && atomicCAS(&levels[target], -1, level + 1) == -1) {
            // One addition for all threads of the warp that are here.
            unsigned mask = __activemask();
            int leader = __ffs(mask) - 1, lane = threadIdx.x % 32, base = 0;
            if (lane == leader)
                base = atomicAdd(next_size, __popc(mask));
            base = __shfl_sync(mask, base, leader);
            next[base + __popc(mask & ((1u << lane) - 1))] = target;
        }
    }
}

// The same without a queue: all nodes look whether they are on the frontier.
__global__ void sweep(const int *starts, const int *targets, int *levels, int nodes, int level, int *changed)
{
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes || levels[node] != level)
        return;
    for (int edge = starts[node]; edge < starts[node + 1]; edge++)
        if (levels[targets[edge]] < 0) {
            levels[targets[edge]] = level + 1;
            *changed = 1;
        }
}

int main()
{
    const int nodes = 100000;
    suite::Random random(7);
    std::vector<int> starts(nodes + 1), targets;
    for (int node = 0; node < nodes; node++) {
        int degree = 1 + random.below(8);
        for (int i = 0; i < degree; i++)
            targets.push_back(i % 2 ? int(random.below(nodes)) : std::min(nodes - 1, node + int(random.below(50))));
        starts[node + 1] = targets.size();
    }
    std::vector<int> expected(nodes, -1), queue = {0};
    expected[0] = 0;
    for (size_t i = 0; i < queue.size(); i++)
        for (int edge = starts[queue[i]]; edge < starts[queue[i] + 1]; edge++)
            if (expected[targets[edge]] < 0) {
                expected[targets[edge]] = expected[queue[i]] + 1;
                queue.push_back(targets[edge]);
            }

    suite::Device<int> row(starts), column(targets), levels(nodes), first(nodes), second(nodes), counter(1);
    auto search = [&] {
        int *from = first, *to = second, size = 1, zero = 0;
        CHECK(cudaMemset(levels, 0xff, nodes * 4));
        CHECK(cudaMemcpy(levels, &zero, 4, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(from, &zero, 4, cudaMemcpyHostToDevice));
        for (int level = 0; size; level++) {
            counter.clear();
            expand<<<(size + 127) / 128, 128>>>(row, column, levels, from, size, to, counter, level);
            CHECK(cudaMemcpy(&size, counter, 4, cudaMemcpyDeviceToHost));
            std::swap(from, to);
        }
    };
    search();
    suite::equal("levels by queue", levels.host(), expected);

    int zero = 0, changed = 1;
    CHECK(cudaMemset(levels, 0xff, nodes * 4));
    CHECK(cudaMemcpy(levels, &zero, 4, cudaMemcpyHostToDevice));
    for (int level = 0; changed; level++) {
        counter.clear();
        sweep<<<(nodes + 255) / 256, 256>>>(row, column, levels, nodes, level, counter);
        CHECK(cudaMemcpy(&changed, counter, 4, cudaMemcpyDeviceToHost));
    }
    suite::equal("levels by sweeps", levels.host(), expected);
    suite::timed("sweep", [&] { sweep<<<(nodes + 255) / 256, 256>>>(row, column, levels, nodes, 3, counter); });
    // All nodes as the frontier: each edge is looked at once.
    std::vector<int> all(nodes);
    for (int i = 0; i < nodes; i++)
        all[i] = i;
    first.set(all);
    suite::timed("expand", [&] { expand<<<(nodes + 127) / 128, 128>>>(row, column, levels, first, nodes, second, counter, 3); });
    return suite::finish();
}
