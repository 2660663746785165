// Irregular access: sparse matrix products, breadth-first search, a hash table, N queens, string search, binary search.
// oriole: arch=compute_80
// oriole: arch=compute_90
// oriole: arch=compute_90 options=-G tag=debug

extern "C" __global__ void spmv_csr(const int* __restrict__ rows, const int* __restrict__ columns, const float* __restrict__ values,
                                    const float* __restrict__ x, float* y, int n) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (row >= n) return;
    float sum = 0;
    for (int i = rows[row] + lane; i < rows[row + 1]; i += 32) sum += values[i] * x[columns[i]];
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (lane == 0) y[row] = sum;
}

extern "C" __global__ void bfs_level(const int* offsets, const int* edges, int* depth, const int* frontier, int count,
                                     int* next, int* next_count, int level) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int u = frontier[i];
    for (int e = offsets[u]; e < offsets[u + 1]; ++e) {
        int v = edges[e];
        if (atomicCAS(&depth[v], -1, level) == -1) next[atomicAdd(next_count, 1)] = v;
    }
}

extern "C" __global__ void hash_insert(unsigned long long* table, unsigned mask, const unsigned* keys, const unsigned* values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long entry = (unsigned long long)keys[i] << 32 | values[i];
    unsigned slot = keys[i] * 2654435761u;
    for (;; ++slot) {
        unsigned long long old = atomicCAS(&table[slot & mask], ~0ull, entry);
        if (old == ~0ull || (unsigned)(old >> 32) == keys[i]) break;
    }
}

extern "C" __global__ void queens(int n, unsigned* solutions) {
    unsigned columns[20], left[20], right[20], open[20];
    int depth = 0;
    unsigned full = (1u << n) - 1, count = 0;
    columns[0] = 1u << (threadIdx.x % n); left[0] = columns[0] << 1; right[0] = columns[0] >> 1;
    open[0] = full & ~(columns[0] | left[0] | right[0]);
    while (depth >= 0) {
        unsigned bit = open[depth] & -open[depth];
        if (!bit) { --depth; continue; }
        open[depth] ^= bit;
        if (depth == n - 2) { ++count; continue; }
        columns[depth + 1] = columns[depth] | bit;
        left[depth + 1] = (left[depth] | bit) << 1;
        right[depth + 1] = (right[depth] | bit) >> 1;
        ++depth;
        open[depth] = full & ~(columns[depth] | left[depth] | right[depth]);
    }
    solutions[threadIdx.x] = count;
}

extern "C" __global__ void find_string(const char* text, int length, const char* pattern, int pattern_length, int* first) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + pattern_length > length) return;
    int j = 0;
    while (j < pattern_length && (text[i + j] | 32) == (pattern[j] | 32)) ++j;
    if (j == pattern_length) atomicMin(first, i);
}

extern "C" __global__ void lower_bound(const double* sorted, int n, const double* queries, int* where, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m) return;
    int low = 0, high = n;
    while (low < high) { int middle = low + (high - low) / 2; if (sorted[middle] < queries[i]) low = middle + 1; else high = middle; }
    where[i] = low;
}
