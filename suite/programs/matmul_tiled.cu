// Products of square matrices in float with square tiles in shared memory; the size of the tile is a template parameter.
#include "../timing.h"

template <int TILE> __global__ void multiply(const float *a, const float *b, float *c, int n)
{
    __shared__ float left[TILE][TILE], right[TILE][TILE + 1];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int start = 0; start < n; start += TILE) {
        left[threadIdx.y][threadIdx.x] = a[row * n + start + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(start + threadIdx.y) * n + column];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; k++)
            sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

// Each thread computes 4 by 4 elements.
__global__ void multiply_registers(const float *a, const float *b, float *c, int n)
{
    __shared__ float left[16][64], right[16][64];
    int x = threadIdx.x, y = threadIdx.y, thread = y * 16 + x;
    int row = blockIdx.y * 64, column = blockIdx.x * 64;
    float sums[4][4] = {};
    for (int start = 0; start < n; start += 16) {
        for (int i = thread; i < 1024; i += 256) {
            left[i % 16][i / 16] = a[(row + i / 16) * n + start + i % 16];
            right[i / 64][i % 64] = b[(start + i / 64) * n + column + i % 64];
        }
        __syncthreads();
        for (int k = 0; k < 16; k++) {
            float u[4], v[4];
            for (int i = 0; i < 4; i++) {
                u[i] = left[k][y * 4 + i];
                v[i] = right[k][x * 4 + i];
            }
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    sums[i][j] += u[i] * v[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            c[(row + y * 4 + i) * n + column + x * 4 + j] = sums[i][j];
}

int main()
{
    const int n = 512;
    auto a = suite::floats(n * n, 1), b = suite::floats(n * n, 2);
    std::vector<float> expected(n * n);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            for (int j = 0; j < n; j++)
                expected[i * n + j] += a[i * n + k] * b[k * n + j];
    suite::Device<float> left(a), right(b), out(size_t(n) * n);

    auto small = [&] { multiply<8><<<dim3(n / 8, n / 8), dim3(8, 8)>>>(left, right, out, n); };
    auto medium = [&] { multiply<16><<<dim3(n / 16, n / 16), dim3(16, 16)>>>(left, right, out, n); };
    auto large = [&] { multiply<32><<<dim3(n / 32, n / 32), dim3(32, 32)>>>(left, right, out, n); };
    auto registers = [&] { multiply_registers<<<dim3(n / 64, n / 64), dim3(16, 16)>>>(left, right, out, n); };
    small();
    suite::close("tile of 8", out.host(), expected, 1e-4, 1e-3);
    medium();
    suite::close("tile of 16", out.host(), expected, 1e-4, 1e-3);
    large();
    suite::close("tile of 32", out.host(), expected, 1e-4, 1e-3);
    registers();
    suite::close("registers", out.host(), expected, 1e-4, 1e-3);
    suite::timed("tile8", small);
    suite::timed("tile16", medium);
    suite::timed("tile32", large);
    suite::timed("registers", registers);
    return suite::finish();
}
