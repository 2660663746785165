// A sparse matrix times a vector in four formats: CSR with a thread or a warp for each row, ELLPACK, and coordinates with atomics.
#include "../timing.h"

template <int LANES> __global__ void csr(const int *starts, const int *columns, const float *values, const float *x, float *y, int rows)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    if (row >= rows)
        return;
    float sum = 0;
    for (int i = starts[row] + lane; i < starts[row + 1]; i += LANES)
        sum += values[i] * x[columns[i]];
#pragma unroll
    for (int step = LANES / 2; step; step /= 2)
        sum += __shfl_down_sync(~0u, sum, step, LANES);
    if (lane == 0)
        y[row] = sum;
}

__global__ void ell(const int *columns, const float *values, const float *x, float *y, int rows, int width)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float sum = 0;
    for (int i = 0; i < width; i++) {
        int column = columns[i * rows + row];
        if (column >= 0)
            sum += values[i * rows + row] * x[column];
    }
    y[row] = sum;
}

__global__ void coordinates(const int *rows, const int *columns, const float *values, const float *x, float *y, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        atomicAdd(&y[rows[i]], values[i] * x[columns[i]]);
}

// Products of rows of two dense matrices where the pattern has an element.
__global__ void sampled(const int *rows, const int *columns, const float *a, const float *b, float *out, int count, int depth)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    const float4 *u = (const float4 *)(a + rows[i] * depth), *v = (const float4 *)(b + columns[i] * depth);
    float sum = 0;
    for (int k = 0; k < depth / 4; k++)
        sum += u[k].x * v[k].x + u[k].y * v[k].y + u[k].z * v[k].z + u[k].w * v[k].w;
    out[i] = sum;
}

int main()
{
    const int n = 16384, depth = 32, width = 24;
    suite::Random random(121);
    std::vector<int> starts(n + 1), columns, rows, ell_columns(n * width, -1);
    std::vector<float> values, ell_values(n * width);
    for (int row = 0; row < n; row++) {
        int count = 1 + random.below(width);
        for (int i = 0; i < count; i++) {
            columns.push_back(random.below(n));
            rows.push_back(row);
            values.push_back(random.between(-1, 1));
            ell_columns[i * n + row] = columns.back();
            ell_values[i * n + row] = values.back();
        }
        starts[row + 1] = columns.size();
    }
    int count = columns.size();
    auto x = suite::floats(n, 122), a = suite::floats(n * depth, 123), b = suite::floats(n * depth, 124);
    std::vector<double> expected(n), products(count);
    for (int i = 0; i < count; i++) {
        expected[rows[i]] += double(values[i]) * x[columns[i]];
        for (int k = 0; k < depth; k++)
            products[i] += double(a[rows[i] * depth + k]) * b[columns[i] * depth + k];
    }
    suite::Device<int> start(starts), column(columns), row(rows), ell_column(ell_columns);
    suite::Device<float> value(values), ell_value(ell_values), in(x), out(n), left(a), right(b), sums(count);
    auto scalar = [&] { csr<1><<<n / 128, 128>>>(start, column, value, in, out, n); };
    auto vector = [&] { csr<8><<<n * 8 / 128, 128>>>(start, column, value, in, out, n); };
    auto padded = [&] { ell<<<n / 128, 128>>>(ell_column, ell_value, in, out, n, width); };
    auto listed = [&] { coordinates<<<(count + 127) / 128, 128>>>(row, column, value, in, out, count); };
    auto dense = [&] { sampled<<<(count + 127) / 128, 128>>>(row, column, left, right, sums, count, depth); };
    scalar();
    suite::close("a thread a row", out.host(), expected, 1e-4, 1e-5);
    vector();
    suite::close("eight threads a row", out.host(), expected, 1e-4, 1e-5);
    padded();
    suite::close("ELLPACK", out.host(), expected, 1e-4, 1e-5);
    dense();
    suite::close("sampled", sums.host(), products, 1e-4, 1e-5);
    out.clear();
    listed();
    // The order of additions changes from run to run: compared with the CPU only.
    auto got = out.host();
    for (int i = 0; i < n; i++)
        if (fabs(got[i] - expected[i]) > 1e-4)
            suite::failed() = true;
    suite::timed("csr1", scalar);
    suite::timed("csr8", vector);
    suite::timed("ell", padded);
    suite::timed("coordinates", listed);
    suite::timed("sampled", dense);
    return suite::finish();
}
