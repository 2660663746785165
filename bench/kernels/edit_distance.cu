// kernel-test 1
// about: dynamic programming along diagonals in shared memory
// kernel: edit_distance
// grid: 264 1 1
// block: 128 1 1
// param a: u32[33792] = random:36
// param b: u32[33792] = random:37
// param out: u32[33792] = zero
// expect out: exact = ?*33792

// oriole: arch=compute_80
extern "C" __global__ void edit_distance(const unsigned *a, const unsigned *b, unsigned *out)
{
    __shared__ int rows[3][130];
    __shared__ unsigned char text[128];
    int thread = threadIdx.x, old = 0, middle = 1, fresh = 2;
    unsigned own = a[blockIdx.x * 128 + thread] & 3;
    text[thread] = b[blockIdx.x * 128 + thread] & 3;
    for (int i = 0; i < 3; i++)
        rows[i][thread + 1] = thread + 1;
    if (thread == 0)
        rows[0][0] = rows[1][0] = rows[2][0] = 0;
    for (int diagonal = 0; diagonal < 255; diagonal++) {
        __syncthreads();
        int j = diagonal - thread;
        if (j >= 0 && j < 128) {
            int left = j == 0 ? thread + 1 : rows[middle][thread + 1];
            int up = thread == 0 ? j + 1 : rows[middle][thread];
            int corner = thread == 0 ? j : j == 0 ? thread : rows[old][thread];
            rows[fresh][thread + 1] = min(min(left, up) + 1, corner + (own != text[j]));
        }
        int first = old;
        old = middle;
        middle = fresh;
        fresh = first;
    }
    __syncthreads();
    out[blockIdx.x * 128 + thread] = rows[middle][thread + 1];
}
