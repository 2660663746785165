// Managed memory: a search tree of pointers that the CPU builds and the GPU searches, and a list that threads append to.
#include "../timing.h"

struct Node {
    uint32_t key, value;
    Node *left, *right;
};

__global__ void search(const Node *root, const uint32_t *keys, uint32_t *found, int count)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count)
        return;
    const Node *node = root;
    while (node && node->key != keys[at])
        node = keys[at] < node->key ? node->left : node->right;
    found[at] = node ? node->value : ~0u;
}

struct Cell {
    int value;
    Cell *next;
};

// All threads push onto one stack by exchanges of its head.
__global__ void push(Cell *cells, unsigned long long *head, int count)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count)
        return;
    cells[at].value = at * 3;
    unsigned long long old = atomicExch(head, (unsigned long long)&cells[at]);
    cells[at].next = (Cell *)old;
}

int main()
{
    const int nodes = 4096, count = 1 << 15;
    Node *tree, *root = nullptr;
    Cell *cells;
    CHECK(cudaMallocManaged(&tree, nodes * sizeof(Node)));
    CHECK(cudaMallocManaged(&cells, 2048 * sizeof(Cell)));
    suite::Random random(251);
    for (int i = 0; i < nodes; i++) {
        tree[i] = {random.bits() >> 16, uint32_t(i), nullptr, nullptr};
        Node **place = &root;
        while (*place && (*place)->key != tree[i].key)
            place = tree[i].key < (*place)->key ? &(*place)->left : &(*place)->right;
        if (!*place)
            *place = &tree[i];
    }
    std::vector<uint32_t> keys(count), expected(count);
    for (int i = 0; i < count; i++) {
        keys[i] = i % 2 ? tree[random.below(nodes)].key : random.bits() >> 16;
        const Node *node = root;
        while (node && node->key != keys[i])
            node = keys[i] < node->key ? node->left : node->right;
        expected[i] = node ? node->value : ~0u;
    }
    suite::Device<uint32_t> in(keys), out(count);
    suite::Device<unsigned long long> head(1);
    auto launch = [&] { search<<<count / 128, 128>>>(root, in, out, count); };
    launch();
    suite::equal("found", out.host(), expected);
    push<<<16, 128>>>(cells, head, 2048);
    auto first = head.host();
    std::vector<int> values, wanted(2048);
    for (Cell *cell = (Cell *)first[0]; cell && values.size() <= 2048; cell = cell->next)
        values.push_back(cell->value);
    std::sort(values.begin(), values.end());
    for (int i = 0; i < 2048; i++)
        wanted[i] = i * 3;
    suite::equal("list", values, wanted);
    suite::timed("search", launch);
    CHECK(cudaFree(tree));
    CHECK(cudaFree(cells));
    return suite::finish();
}
