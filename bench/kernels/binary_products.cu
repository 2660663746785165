// kernel-test 1
// about: products of binary matrices by exclusive or and counting of bits
// kernel: binary_products
// grid: 32 32 1
// block: 16 16 1
// param a: u32[65536] = random:172
// param b: u32[65536] = random:173
// param c: s32[262144] = zero
// expect c: exact = ?*262144

// oriole: arch=compute_80
// 512 rows of 128 words on both sides.
extern "C" __global__ void binary_products(const uint4 *a, const uint4 *b, int *c)
{
    __shared__ uint4 left[16][17], right[16][17];
    unsigned x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16, column = blockIdx.x * 16;
    int sum = 0;
    for (int start = 0; start < 32; start += 16) {
        left[y][x] = a[(row + y) * 32 + start + x];
        right[y][x] = b[(column + y) * 32 + start + x];
        __syncthreads();
#pragma unroll 4
        for (int i = 0; i < 16; i++) {
            uint4 u = left[y][i], v = right[x][i];
            sum += __popc(u.x ^ v.x) + __popc(u.y ^ v.y) + __popc(u.z ^ v.z) + __popc(u.w ^ v.w);
        }
        __syncthreads();
    }
    c[(row + y) * 512 + column + x] = 4096 - 2 * sum;
}
