// Device functions that call themselves: quicksort, Ackermann's function, towers, and a tree that is walked in order.
// suite: options="-Xptxas=-suppress-stack-size-warning"
#include "../timing.h"

__host__ __device__ void quicksort(int *v, int low, int high)
{
    if (low >= high)
        return;
    int pivot = v[(low + high) / 2], i = low, j = high;
    while (i <= j) {
        while (v[i] < pivot)
            i++;
        while (v[j] > pivot)
            j--;
        if (i <= j) {
            int other = v[i];
            v[i++] = v[j];
            v[j--] = other;
        }
    }
    quicksort(v, low, j);
    quicksort(v, i, high);
}

__host__ __device__ int ackermann(int m, int n)
{
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

__host__ __device__ void towers(int disks, int from, int to, uint32_t &hash)
{
    if (disks == 0)
        return;
    towers(disks - 1, from, 3 - from - to, hash);
    hash = hash * 31 + from * 3 + to;
    towers(disks - 1, 3 - from - to, to, hash);
}

// The sum of depth times value over a tree in the order of a heap.
__host__ __device__ long long walk(const int *tree, int size, int node, int depth)
{
    if (node >= size)
        return 0;
    return walk(tree, size, 2 * node + 1, depth + 1) + (long long)depth * tree[node] + walk(tree, size, 2 * node + 2, depth + 1);
}

__global__ void sort_parts(int *v, int part)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    quicksort(v + at * part, 0, part - 1);
}

__global__ void numbers(const int *tree, int size, int *ackermanns, uint32_t *moves, long long *sums)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    ackermanns[at] = ackermann(2, at % 8);
    uint32_t hash = at;
    towers(at % 6, at % 3, (at + 1) % 3, hash);
    moves[at] = hash;
    sums[at] = walk(tree, size, at % 32, 0);
}

int main()
{
    const int threads = 2048, part = 64, size = 255;
    CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 16384));
    auto bits = suite::words(threads * part, 241);
    std::vector<int> v(bits.begin(), bits.end()), expected = v, tree(bits.begin(), bits.begin() + size), ackermanns(threads);
    std::vector<uint32_t> moves(threads);
    std::vector<long long> sums(threads);
    for (int i = 0; i < threads; i++) {
        std::sort(expected.begin() + i * part, expected.begin() + (i + 1) * part);
        // 2 n + 3.
        ackermanns[i] = 2 * (i % 8) + 3;
        uint32_t hash = i;
        towers(i % 6, i % 3, (i + 1) % 3, hash);
        moves[i] = hash;
        sums[i] = walk(tree.data(), size, i % 32, 0);
    }
    suite::Device<int> in(v), nodes(tree), first(threads);
    suite::Device<uint32_t> second(threads);
    suite::Device<long long> third(threads);
    sort_parts<<<threads / 64, 64>>>(in, part);
    suite::equal("sorted", in.host(), expected);
    auto launch = [&] { numbers<<<threads / 64, 64>>>(nodes, size, first, second, third); };
    launch();
    suite::equal("Ackermann", first.host(), ackermanns);
    suite::equal("towers", second.host(), moves);
    suite::equal("tree", third.host(), sums);
    suite::timed("numbers", launch);
    suite::timed("sort_parts", [&] { sort_parts<<<threads / 64, 64>>>(in, part); });
    return suite::finish();
}
