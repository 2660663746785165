// kernel-test 1
// about: f16 matrix product on tensor cores, f32 sums
// kernel: tensor_matmul
// grid: 16 16 1
// block: 128 1 1
// param a: u16[1048576] = random:43
// param b: u16[1048576] = random:44
// param c: f32[1048576] = zero
// expect c: exact = ?*1048576

// oriole: arch=compute_80
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void __launch_bounds__(128) tensor_matmul(const unsigned short *a, const unsigned short *b, float *c)
{
    const unsigned n = 1024;
    __shared__ __align__(16) unsigned short left[64][40], right[32][72];
    unsigned row = blockIdx.y * 64, column = blockIdx.x * 64, warp = threadIdx.x / 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[4];
    for (int i = 0; i < 4; i++)
        wmma::fill_fragment(sums[i], 0.0f);
    for (unsigned start = 0; start < n; start += 32) {
        for (unsigned i = threadIdx.x; i < 2048; i += 128) {
            left[i / 32][i % 32] = a[(row + i / 32) * n + start + i % 32] & 0x8fff | 0x3000;
            right[i / 64][i % 64] = b[(start + i / 64) * n + column + i % 64] & 0x8fff | 0x3000;
        }
        __syncthreads();
        for (int k = 0; k < 32; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> x;
            wmma::load_matrix_sync(x, reinterpret_cast<const __half *>(&left[warp * 16][k]), 40);
            for (int i = 0; i < 4; i++) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> y;
                wmma::load_matrix_sync(y, reinterpret_cast<const __half *>(&right[k][i * 16]), 72);
                wmma::mma_sync(sums[i], x, y, sums[i]);
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        wmma::store_matrix_sync(c + (row + warp * 16) * n + column + i * 16, sums[i], n, wmma::mem_row_major);
}
