// Small systems in batches: LU with pivots in registers (a template over type and size), Cholesky in shared memory, and their solutions.
#include "../timing.h"

template <class T, int N> __global__ void solve_lu(const T *a, const T *b, T *x, int count)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count)
        return;
    T m[N][N], v[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        v[i] = b[i * count + at];
#pragma unroll
        for (int j = 0; j < N; j++)
            m[i][j] = a[(i * N + j) * count + at];
    }
#pragma unroll
    for (int k = 0; k < N; k++) {
#pragma unroll
        for (int i = k + 1; i < N; i++)
            if (fabs(m[i][k]) > fabs(m[k][k])) {
#pragma unroll
                for (int j = 0; j < N; j++) {
                    T other = m[i][j];
                    m[i][j] = m[k][j];
                    m[k][j] = other;
                }
                T other = v[i];
                v[i] = v[k];
                v[k] = other;
            }
        T inverse = T(1) / m[k][k];
#pragma unroll
        for (int i = k + 1; i < N; i++) {
            T factor = m[i][k] * inverse;
#pragma unroll
            for (int j = k; j < N; j++)
                m[i][j] -= factor * m[k][j];
            v[i] -= factor * v[k];
        }
    }
#pragma unroll
    for (int i = N - 1; i >= 0; i--) {
#pragma unroll
        for (int j = i + 1; j < N; j++)
            v[i] -= m[i][j] * v[j];
        v[i] /= m[i][i];
        x[i * count + at] = v[i];
    }
}

// A warp factors a matrix of 32 by 32.
__global__ void cholesky(const double *a, double *l)
{
    __shared__ double m[32][33];
    int lane = threadIdx.x, base = blockIdx.x * 1024;
    for (int i = 0; i < 32; i++)
        m[i][lane] = a[base + i * 32 + lane];
    __syncwarp();
    for (int k = 0; k < 32; k++) {
        double root = sqrt(m[k][k]);
        __syncwarp();
        if (lane == k)
            m[k][k] = root;
        else if (lane > k)
            m[lane][k] /= root;
        __syncwarp();
        for (int j = k + 1; j < 32; j++)
            if (lane >= j)
                m[lane][j] -= m[lane][k] * m[j][k];
        __syncwarp();
    }
    for (int i = 0; i < 32; i++)
        l[base + i * 32 + lane] = lane <= i ? m[i][lane] : 0;
}

template <class T, int N> void check_lu(const char *name, int count, double tolerance)
{
    auto values = suite::floats(count * N * (N + 1), 201 + N);
    std::vector<T> a(count * N * N), solution(count * N), b(count * N);
    for (int i = 0; i < count * N; i++)
        solution[i] = values[count * N * N + i];
    for (int at = 0; at < count; at++)
        for (int i = 0; i < N; i++) {
            double sum = 0;
            for (int j = 0; j < N; j++) {
                T &element = a[(i * N + j) * count + at];
                element = values[(i * N + j) * count + at] + ((i + 1) % N == j ? T(4) : T(0));
                sum += double(element) * solution[j * count + at];
            }
            b[i * count + at] = T(sum);
        }
    suite::Device<T> matrix(a), right(b), x(count * N);
    auto launch = [&] { solve_lu<T, N><<<(count + 63) / 64, 64>>>(matrix.data(), right.data(), x.data(), count); };
    launch();
    suite::close(name, x.host(), solution, tolerance, tolerance);
    suite::timed(name, launch);
}

int main()
{
    check_lu<float, 4>("float 4", 16384, 1e-2);
    check_lu<float, 8>("float 8", 8192, 1e-2);
    check_lu<double, 6>("double 6", 8192, 1e-9);

    const int count = 264;
    auto values = suite::floats(count * 1024, 211);
    std::vector<double> a(count * 1024), l(count * 1024);
    for (int p = 0; p < count; p++)
        for (int i = 0; i < 32; i++)
            for (int j = 0; j <= i; j++) {
                l[p * 1024 + i * 32 + j] = i == j ? 2.0 + values[p * 1024 + i] : values[p * 1024 + i * 32 + j] * 0.3;
                for (int k = 0; k <= j; k++)
                    a[p * 1024 + i * 32 + j] += l[p * 1024 + i * 32 + k] * l[p * 1024 + j * 32 + k];
                a[p * 1024 + j * 32 + i] = a[p * 1024 + i * 32 + j];
            }
    suite::Device<double> matrix(a), factor(count * 1024);
    auto launch = [&] { cholesky<<<count, 32>>>(matrix, factor); };
    launch();
    suite::close("cholesky", factor.host(), l, 1e-8, 1e-8);
    suite::timed("cholesky", launch);
    return suite::finish();
}
