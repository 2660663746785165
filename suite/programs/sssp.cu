// Shortest paths by relaxing edges with atomicMin until nothing changes, and connected components by the smallest label.
#include "../timing.h"

#include <climits>

__global__ void relax(const int *from, const int *to, const int *lengths, int edges, int *distances, int *changed)
{
    int edge = blockIdx.x * blockDim.x + threadIdx.x;
    if (edge >= edges)
        return;
    int start = distances[from[edge]];
    if (start == INT_MAX)
        return;
    int through = start + lengths[edge];
    if (through < distances[to[edge]] && through < atomicMin(&distances[to[edge]], through))
        *changed = 1;
}

__global__ void hook(const int *from, const int *to, int edges, int *labels, int *changed)
{
    int edge = blockIdx.x * blockDim.x + threadIdx.x;
    if (edge >= edges)
        return;
    int a = labels[from[edge]], b = labels[to[edge]];
    if (a == b)
        return;
    atomicMin(&labels[max(a, b)], min(a, b));
    *changed = 1;
}

// Follows labels up to the root.
__global__ void compress(int *labels, int nodes)
{
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes)
        return;
    int label = labels[node];
    while (labels[label] != label)
        label = labels[label];
    labels[node] = label;
}

int main()
{
    const int nodes = 20000, edges = 60000;
    suite::Random random(111);
    std::vector<int> from(edges), to(edges), lengths(edges);
    for (int i = 0; i < edges; i++) {
        from[i] = random.below(nodes);
        // Groups of 500 nodes have no edges between them but for a few.
        to[i] = i % 1000 ? from[i] / 500 * 500 + int(random.below(500)) : std::min(nodes - 1, from[i] + 500);
        lengths[i] = 1 + random.below(100);
    }
    std::vector<int> expected(nodes, INT_MAX), labels(nodes), roots(nodes);
    expected[0] = 0;
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < edges; i++)
            if (expected[from[i]] != INT_MAX && expected[from[i]] + lengths[i] < expected[to[i]]) {
                expected[to[i]] = expected[from[i]] + lengths[i];
                again = true;
            }
    }
    for (int i = 0; i < nodes; i++)
        labels[i] = roots[i] = i;
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < edges; i++) {
            int least = std::min(roots[from[i]], roots[to[i]]);
            again |= roots[from[i]] != least || roots[to[i]] != least;
            roots[from[i]] = roots[to[i]] = least;
        }
    }

    std::vector<int> begin(nodes, INT_MAX);
    begin[0] = 0;
    suite::Device<int> starts(from), ends(to), weights(lengths), distances(begin), changed(1), names(labels);
    int blocks = (edges + 255) / 256, again = 1;
    while (again) {
        changed.clear();
        relax<<<blocks, 256>>>(starts, ends, weights, edges, distances, changed);
        again = changed.host()[0];
    }
    suite::equal("distances", distances.host(), expected);
    for (again = 1; again;) {
        changed.clear();
        hook<<<blocks, 256>>>(starts, ends, edges, names, changed);
        compress<<<(nodes + 255) / 256, 256>>>(names, nodes);
        again = changed.host()[0];
    }
    suite::equal("components", names.host(), roots);
    suite::timed("relax", [&] { relax<<<blocks, 256>>>(starts, ends, weights, edges, distances, changed); });
    suite::timed("hook", [&] { hook<<<blocks, 256>>>(starts, ends, edges, names, changed); });
    suite::timed("compress", [&] { compress<<<(nodes + 255) / 256, 256>>>(names, nodes); });
    return suite::finish();
}
