// Jacobi steps for the heat equation in double: five points from global memory, nine points with a tile in shared memory, and the error.
#include "../timing.h"

const int N = 512;

__host__ __device__ inline double five(double c, double l, double r, double u, double d) { return c + 0.2 * (l + r + u + d - 4.0 * c); }

__global__ void step_five(const double *x, double *y)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i == 0 || j == 0 || i == N - 1 || j == N - 1)
        y[i * N + j] = x[i * N + j];
    else
        y[i * N + j] = five(x[i * N + j], x[i * N + j - 1], x[i * N + j + 1], x[(i - 1) * N + j], x[(i + 1) * N + j]);
}

__global__ void step_nine(const double *x, double *y)
{
    __shared__ double tile[18][34];
    int left = blockIdx.x * 32 - 1, top = blockIdx.y * 16 - 1;
    for (int at = threadIdx.y * 32 + threadIdx.x; at < 18 * 34; at += 512) {
        int i = min(max(top + at / 34, 0), N - 1), j = min(max(left + at % 34, 0), N - 1);
        tile[at / 34][at % 34] = x[i * N + j];
    }
    __syncthreads();
    int u = threadIdx.y + 1, v = threadIdx.x + 1;
    double side = tile[u - 1][v] + tile[u + 1][v] + tile[u][v - 1] + tile[u][v + 1];
    double corner = tile[u - 1][v - 1] + tile[u - 1][v + 1] + tile[u + 1][v - 1] + tile[u + 1][v + 1];
    y[(top + u) * N + left + v] = (4.0 * side + corner) / 20.0;
}

// The largest change of a step. Doubles that are not negative are ordered like their bits.
__global__ void change(const double *x, const double *y, unsigned long long *most)
{
    double largest = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N * N; i += gridDim.x * blockDim.x)
        largest = fmax(largest, fabs(x[i] - y[i]));
    for (int lane = 16; lane; lane /= 2)
        largest = fmax(largest, __shfl_xor_sync(~0u, largest, lane));
    if (threadIdx.x % 32 == 0)
        atomicMax(most, (unsigned long long)__double_as_longlong(largest));
}

int main()
{
    std::vector<double> x(N * N), y(N * N), nine(N * N);
    auto values = suite::floats(N * N, 61, 0, 100);
    for (int i = 0; i < N * N; i++)
        x[i] = values[i];
    suite::Device<double> a(x), b(size_t(N) * N);
    suite::Device<unsigned long long> most(1);
    dim3 grid(N / 32, N / 16), block(32, 16);
    const int steps = 20;
    for (int step = 0; step < steps; step++) {
        step_five<<<grid, block>>>(step % 2 ? b : a, step % 2 ? a : b);
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                y[i * N + j] = i && j && i < N - 1 && j < N - 1
                    ? five(x[i * N + j], x[i * N + j - 1], x[i * N + j + 1], x[(i - 1) * N + j], x[(i + 1) * N + j]) : x[i * N + j];
        std::swap(x, y);
    }
    suite::close("five points", a.host(), x, 1e-12, 1e-12);
    change<<<64, 256>>>(a, b, most);
    double largest = 0, got;
    for (int i = 0; i < N * N; i++)
        largest = std::max(largest, fabs(x[i] - y[i]));
    auto bits = most.host();
    memcpy(&got, &bits[0], 8);
    suite::close("change", std::vector<double>{got}, std::vector<double>{largest}, 1e-9, 1e-12);
    step_nine<<<grid, block>>>(a, b);
    auto at = [&](int i, int j) { return x[std::min(std::max(i, 0), N - 1) * N + std::min(std::max(j, 0), N - 1)]; };
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            nine[i * N + j] = (4.0 * (at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1))
                + (at(i - 1, j - 1) + at(i - 1, j + 1) + at(i + 1, j - 1) + at(i + 1, j + 1))) / 20.0;
    suite::close("nine points", b.host(), nine, 1e-12, 1e-12);
    suite::timed("five", [&] { step_five<<<grid, block>>>(a, b); });
    suite::timed("nine", [&] { step_nine<<<grid, block>>>(a, b); });
    suite::timed("change", [&] { change<<<64, 256>>>(a, b, most); });
    return suite::finish();
}
