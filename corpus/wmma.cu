// Tensor cores through the wmma interface: fragments from global and shared memory, half, bf16 and int8.
// oriole: arch=compute_75 tag=sm_75
// oriole: arch=compute_80 tag=sm_80

#include <mma.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
using namespace nvcuda;

extern "C" __global__ void wmma_half(const half* a, const half* b, float* c, int n, int k) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(fa, a + blockIdx.y * 16 * k + i, k);
        wmma::load_matrix_sync(fb, b + blockIdx.x * 16 * k + i, k);
        wmma::mma_sync(acc, fa, fb, acc);
    }
    for (int i = 0; i < acc.num_elements; ++i) acc.x[i] = fmaxf(acc.x[i], 0.0f);
    wmma::store_matrix_sync(c + blockIdx.y * 16 * n + blockIdx.x * 16, acc, n, wmma::mem_row_major);
}

extern "C" __global__ void wmma_int8(const signed char* a, const signed char* b, int* c) {
    __shared__ int tile[32 * 8];
    wmma::fragment<wmma::matrix_a, 32, 8, 16, signed char, wmma::col_major> fa;
    wmma::fragment<wmma::matrix_b, 32, 8, 16, signed char, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 32, 8, 16, int> acc;
    wmma::fill_fragment(acc, 1);
    wmma::load_matrix_sync(fa, a, 32);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(acc, fa, fb, acc, true);
    wmma::store_matrix_sync(tile, acc, 32, wmma::mem_col_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32) c[i] = tile[i];
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void wmma_bfloat_tf32(const __nv_bfloat16* a, const __nv_bfloat16* b, const float* x, float* c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> ta;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> tb;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> acc2;
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::load_matrix_sync(acc, c, 16, wmma::mem_row_major);
    wmma::mma_sync(acc, fa, fb, acc);
    wmma::load_matrix_sync(ta, x, 8);
    wmma::load_matrix_sync(tb, x + 128, 8);
    wmma::fill_fragment(acc2, 0.5f);
    for (int i = 0; i < ta.num_elements; ++i) ta.x[i] = wmma::__float_to_tf32(ta.x[i]);
    wmma::mma_sync(acc2, ta, tb, acc2);
    wmma::store_matrix_sync(c, acc, 16, wmma::mem_row_major);
    wmma::store_matrix_sync(c + 256, acc2, 16, wmma::mem_row_major);
}
#endif
