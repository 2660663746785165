// Products of bytes by dp4a, weights of four bits, and a convolution of bytes with a requantized result.
#include "../timing.h"

// A warp for each row.
__global__ void dot_bytes(const int *weights, const int *x, int *y, int words)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32, sum = 0;
    for (int i = lane; i < words; i += 32)
        sum = __dp4a(weights[row * words + i], x[i], sum);
    sum = __reduce_add_sync(~0u, sum);
    if (lane == 0)
        y[row] = sum;
}

// Eight weights of four bits in a word, from -8 to 7.
__global__ void dot_nibbles(const uint32_t *weights, const float *scales, const float *x, float *y, int words)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    float sum = 0;
    for (int i = lane; i < words; i += 32) {
        uint32_t word = weights[row * words + i];
        float part = 0;
#pragma unroll
        for (int k = 0; k < 8; k++)
            part += x[i * 8 + k] * (int(word << (28 - 4 * k)) >> 28);
        sum += part * scales[(row * words + i) / 4];
    }
    for (int step = 16; step; step /= 2)
        sum += __shfl_xor_sync(~0u, sum, step);
    if (lane == 0)
        y[row] = sum;
}

__host__ __device__ inline signed char requantize(int sum)
{
    long long scaled = ((long long)sum * 1518500250ll + (1ll << 36)) >> 37;
    return scaled < -128 ? -128 : scaled > 127 ? 127 : (signed char)scaled;
}

// One row of an image with four channels in a word, filters of seven taps.
__global__ void convolve(const int *image, const int *filter, signed char *out, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x + 7 > width)
        return;
    int sum = 64;
#pragma unroll
    for (int i = 0; i < 7; i++)
        sum = __dp4a(image[y * width + x + i], filter[i], sum);
    out[y * width + x] = requantize(sum);
}

int main()
{
    const int rows = 2048, words = 512, width = 1024, height = 256;
    auto weights = suite::words(rows * words, 261), vector = suite::words(words, 262), image = suite::words(width * height, 263), filter = suite::words(7, 264);
    auto byte = [](uint32_t word, int k) { return int((signed char)(word >> 8 * k)); };
    std::vector<int> sums(rows);
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < words; i++)
            for (int k = 0; k < 4; k++)
                sums[row] += byte(weights[row * words + i], k) * byte(vector[i], k);
    auto x = suite::floats(128 * 8, 265), scales = suite::floats(rows * 128 / 4, 266, 0.1f, 1);
    std::vector<double> products(rows);
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < 128; i++)
            for (int k = 0; k < 8; k++)
                products[row] += double(scales[(row * 128 + i) / 4]) * x[i * 8 + k] * (int(weights[row * 128 + i] << (28 - 4 * k)) >> 28);
    std::vector<signed char> expected(width * height);
    for (int y = 0; y < height; y++)
        for (int at = 0; at + 7 <= width; at++) {
            int sum = 64;
            for (int i = 0; i < 7; i++)
                for (int k = 0; k < 4; k++)
                    sum += byte(image[y * width + at + i], k) * byte(filter[i], k);
            expected[y * width + at] = requantize(sum);
        }
    suite::Device<uint32_t> w(weights), v(vector), picture(image), taps(filter);
    suite::Device<int> y(rows);
    suite::Device<float> in(x), scale(scales), out(rows);
    suite::Device<signed char> filtered(width * height);
    auto bytes = [&] { dot_bytes<<<rows / 4, 128>>>((const int *)w.data(), (const int *)v.data(), y, words); };
    auto nibbles = [&] { dot_nibbles<<<rows / 4, 128>>>(w, scale, in, out, 128); };
    auto picture_filter = [&] { convolve<<<dim3(width / 128, height), 128>>>((const int *)picture.data(), (const int *)taps.data(), filtered, width); };
    bytes();
    suite::equal("bytes", y.host(), sums);
    nibbles();
    suite::close("nibbles", out.host(), products, 1e-4, 1e-3);
    picture_filter();
    suite::equal("convolution", filtered.host(), expected);
    suite::timed("bytes", bytes);
    suite::timed("nibbles", nibbles);
    suite::timed("convolve", picture_filter);
    return suite::finish();
}
