// Softmax, layer normalization and GELU on half and bfloat16, as templates over the type.
#include "../timing.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

const int WIDTH = 1024;

__host__ __device__ inline float wide(__half v) { return __half2float(v); }
__host__ __device__ inline float wide(__nv_bfloat16 v) { return __bfloat162float(v); }
template <class T> __host__ __device__ inline T narrow(float v);
template <> __host__ __device__ inline __half narrow(float v) { return __float2half(v); }
template <> __host__ __device__ inline __nv_bfloat16 narrow(float v) { return __float2bfloat16(v); }

template <class Combine> __device__ float across(float value, Combine combine)
{
    __shared__ float parts[32];
    for (int step = 16; step; step /= 2)
        value = combine(value, __shfl_xor_sync(~0u, value, step));
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    float result = parts[0];
    for (int i = 1; i < blockDim.x / 32; i++)
        result = combine(result, parts[i]);
    __syncthreads();
    return result;
}

struct Sum {
    __device__ float operator()(float a, float b) const { return a + b; }
};

struct Most {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

template <class T> __global__ void softmax(const T *x, T *y)
{
    float v[WIDTH / 128], most = -INFINITY, sum = 0;
    for (int i = 0; i < WIDTH / 128; i++)
        most = fmaxf(most, v[i] = wide(x[blockIdx.x * WIDTH + i * 128 + threadIdx.x]));
    most = across(most, Most());
    for (int i = 0; i < WIDTH / 128; i++)
        sum += v[i] = expf(v[i] - most);
    sum = across(sum, Sum());
    for (int i = 0; i < WIDTH / 128; i++)
        y[blockIdx.x * WIDTH + i * 128 + threadIdx.x] = narrow<T>(v[i] / sum);
}

template <class T> __global__ void layer_norm(const T *x, T *y)
{
    float v[WIDTH / 128], sum = 0, squares = 0;
    for (int i = 0; i < WIDTH / 128; i++)
        sum += v[i] = wide(x[blockIdx.x * WIDTH + i * 128 + threadIdx.x]);
    float mean = across(sum, Sum()) / WIDTH;
    for (int i = 0; i < WIDTH / 128; i++)
        squares += (v[i] - mean) * (v[i] - mean);
    float scale = rsqrtf(across(squares, Sum()) / WIDTH + 1e-5f);
    for (int i = 0; i < WIDTH / 128; i++)
        y[blockIdx.x * WIDTH + i * 128 + threadIdx.x] = narrow<T>((v[i] - mean) * scale);
}

__global__ void gelu(const __half2 *x, __half2 *y, int n)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n)
        return;
    float2 v = __half22float2(x[at]);
    v.x = 0.5f * v.x * (1 + erff(v.x * 0.70710678f));
    v.y = 0.5f * v.y * (1 + erff(v.y * 0.70710678f));
    y[at] = __hadd2(__float22half2_rn(v), __hmul2(x[at], __float2half2_rn(0.125f)));
}

template <class T> void check(const char *name, double tolerance)
{
    const int rows = 512, n = rows * WIDTH;
    auto values = suite::floats(n, 221, -4, 4);
    std::vector<T> x(n);
    std::vector<double> soft(n), norm(n);
    for (int i = 0; i < n; i++)
        x[i] = narrow<T>(values[i]);
    for (int row = 0; row < rows; row++) {
        double sum = 0, mean = 0, squares = 0;
        for (int i = 0; i < WIDTH; i++) {
            sum += exp(wide(x[row * WIDTH + i]));
            mean += wide(x[row * WIDTH + i]) / double(WIDTH);
        }
        for (int i = 0; i < WIDTH; i++)
            squares += pow(wide(x[row * WIDTH + i]) - mean, 2);
        for (int i = 0; i < WIDTH; i++) {
            soft[row * WIDTH + i] = exp(wide(x[row * WIDTH + i])) / sum;
            norm[row * WIDTH + i] = (wide(x[row * WIDTH + i]) - mean) / sqrt(squares / WIDTH + 1e-5);
        }
    }
    suite::Device<T> in(x), out(n);
    auto result = [&] {
        std::vector<float> values;
        for (T v : out.host())
            values.push_back(wide(v));
        return values;
    };
    auto first = [&] { softmax<T><<<rows, 128>>>(in.data(), out.data()); };
    auto second = [&] { layer_norm<T><<<rows, 128>>>(in.data(), out.data()); };
    first();
    suite::close(name, result(), soft, tolerance, 1e-6);
    second();
    suite::close(name, result(), norm, tolerance, tolerance);
    char label[64];
    snprintf(label, sizeof label, "softmax_%s", name);
    suite::timed(label, first);
    snprintf(label, sizeof label, "norm_%s", name);
    suite::timed(label, second);
}

int main()
{
    check<__half>("half", 2e-3);
    check<__nv_bfloat16>("bfloat16", 1e-2);
    const int n = 1 << 19;
    auto values = suite::floats(2 * n, 222, -4, 4);
    std::vector<__half2> x(n);
    std::vector<double> expected(2 * n);
    for (int i = 0; i < n; i++) {
        x[i] = __floats2half2_rn(values[2 * i], values[2 * i + 1]);
        for (int k = 0; k < 2; k++) {
            double v = k ? __half2float(x[i].y) : __half2float(x[i].x);
            expected[2 * i + k] = 0.5 * v * (1 + erf(v * 0.7071067811865476)) + 0.125 * v;
        }
    }
    suite::Device<__half2> in(x), out(n);
    auto launch = [&] { gelu<<<n / 256, 256>>>(in, out, n); };
    launch();
    std::vector<float> got;
    for (__half2 v : out.host()) {
        got.push_back(__half2float(v.x));
        got.push_back(__half2float(v.y));
    }
    suite::close("gelu", got, expected, 2e-3, 1e-3);
    suite::timed("gelu", launch);
    return suite::finish();
}
