// Matrix products on tensor cores with wmma: half with sums in float, and signed bytes with sums in integers.
#include "../timing.h"

#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

// A warp for each tile of 16 by 16; `a` by rows, `b` by columns.
template <class In, class Out> __global__ void multiply(const In *a, const In *b, Out *c, int n)
{
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, row = warp / (n / 16) * 16, column = warp % (n / 16) * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, In, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, In, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, Out> sum;
    wmma::fill_fragment(sum, Out(0));
    for (int k = 0; k < n; k += 16) {
        wmma::load_matrix_sync(left, a + row * n + k, n);
        wmma::load_matrix_sync(right, b + column * n + k, n);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}

int main()
{
    const int n = 256;
    // Small integers: sums are exact in float.
    auto bits = suite::words(2 * n * n, 91);
    std::vector<__half> a(n * n), b(n * n);
    std::vector<signed char> ai(n * n), bi(n * n);
    std::vector<float> floats(n * n);
    std::vector<int> integers(n * n);
    for (int i = 0; i < n * n; i++) {
        int u = int(bits[i] % 17) - 8, v = int(bits[n * n + i] % 17) - 8;
        a[i] = __float2half(u * 0.25f);
        b[i] = __float2half(v * 0.5f);
        ai[i] = (signed char)(u * 15);
        bi[i] = (signed char)(v * 15);
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            int sum = 0;
            for (int k = 0; k < n; k++)
                sum += ai[i * n + k] * bi[j * n + k];
            integers[i * n + j] = sum;
            floats[i * n + j] = sum / 225 * 0.125f;
        }
    suite::Device<__half> left(a), right(b);
    suite::Device<signed char> left_bytes(ai), right_bytes(bi);
    suite::Device<float> out(n * n);
    suite::Device<int> sums(n * n);
    int blocks = (n / 16) * (n / 16) / 4;
    auto halves = [&] { multiply<__half, float><<<blocks, 128>>>(left.data(), right.data(), out.data(), n); };
    auto bytes = [&] { multiply<signed char, int><<<blocks, 128>>>(left_bytes.data(), right_bytes.data(), sums.data(), n); };
    halves();
    suite::equal("half", out.host(), floats);
    bytes();
    suite::equal("bytes", sums.host(), integers);
    suite::timed("half", halves);
    suite::timed("bytes", bytes);
    return suite::finish();
}
