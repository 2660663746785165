// kernel-test 1
// about: triangles of a graph: common elements of sorted lists of neighbours
// kernel: triangle_count
// grid: 512 1 1
// block: 128 1 1
// param steps: u8[2097152] = random:138
// param pairs: u32[131072] = random:139
// param counts: u32[65536] = zero
// expect counts: exact = ?*65536

// oriole: arch=compute_80
// Lists of 32 neighbours as differences; a thread compares two of them.
extern "C" __global__ void triangle_count(const unsigned char *steps, const uint2 *pairs, unsigned *counts)
{
    unsigned at = blockIdx.x * 128 + threadIdx.x;
    const unsigned char *a = steps + (pairs[at].x & 65535) * 32, *b = steps + (pairs[at].y & 65535) * 32;
    unsigned i = 0, j = 0, u = a[0] & 15, v = b[0] & 15, found = 0;
    while (i < 31 && j < 31) {
        found += u == v;
        bool low = u <= v, high = v <= u;
        if (low)
            u += 1 + (a[++i] & 15);
        if (high)
            v += 1 + (b[++j] & 15);
    }
    counts[at] = found;
}
