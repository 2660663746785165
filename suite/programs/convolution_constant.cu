// A separable Gaussian filter with its weights in constant memory, a direct filter of 5 by 5, and a median of 3 by 3 on bytes.
#include "../timing.h"

const int RADIUS = 6, W = 640, H = 360;

__constant__ float weights[2 * RADIUS + 1];
__constant__ float kernel5[25];

__global__ void rows(const float *in, float *out)
{
    __shared__ float line[128 + 2 * RADIUS];
    int y = blockIdx.y, left = blockIdx.x * 128 - RADIUS;
    for (int i = threadIdx.x; i < 128 + 2 * RADIUS; i += 128)
        line[i] = in[y * W + min(max(left + i, 0), W - 1)];
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int i = 0; i <= 2 * RADIUS; i++)
        sum += weights[i] * line[threadIdx.x + i];
    out[y * W + blockIdx.x * 128 + threadIdx.x] = sum;
}

__global__ void columns(const float *in, float *out)
{
    int x = blockIdx.x * 128 + threadIdx.x, y = blockIdx.y;
    float sum = 0;
    for (int i = -RADIUS; i <= RADIUS; i++)
        sum += weights[i + RADIUS] * in[min(max(y + i, 0), H - 1) * W + x];
    out[y * W + x] = sum;
}

__global__ void direct(const float *in, float *out)
{
    int x = blockIdx.x * 128 + threadIdx.x, y = blockIdx.y;
    float sum = 0;
    for (int i = -2; i <= 2; i++)
        for (int j = -2; j <= 2; j++)
            if (x + j >= 0 && x + j < W && y + i >= 0 && y + i < H)
                sum += kernel5[(i + 2) * 5 + j + 2] * in[(y + i) * W + x + j];
    out[y * W + x] = sum;
}

__host__ __device__ inline void order(int &a, int &b)
{
    int low = a < b ? a : b;
    b = a < b ? b : a;
    a = low;
}

// The median of nine values by a network of comparisons.
__host__ __device__ inline int median(int *v)
{
    order(v[1], v[2]); order(v[4], v[5]); order(v[7], v[8]); order(v[0], v[1]); order(v[3], v[4]); order(v[6], v[7]);
    order(v[1], v[2]); order(v[4], v[5]); order(v[7], v[8]); order(v[0], v[3]); order(v[5], v[8]); order(v[4], v[7]);
    order(v[3], v[6]); order(v[1], v[4]); order(v[2], v[5]); order(v[4], v[7]); order(v[4], v[2]); order(v[6], v[4]);
    order(v[4], v[2]);
    return v[4];
}

__global__ void medians(const unsigned char *in, unsigned char *out)
{
    int x = blockIdx.x * 128 + threadIdx.x, y = blockIdx.y, v[9];
#pragma unroll
    for (int i = 0; i < 9; i++)
        v[i] = in[min(max(y + i / 3 - 1, 0), H - 1) * W + min(max(x + i % 3 - 1, 0), W - 1)];
    out[y * W + x] = median(v);
}

int main()
{
    auto image = suite::floats(W * H, 151, 0, 1);
    std::vector<unsigned char> bytes(W * H), middle(W * H);
    float gauss[2 * RADIUS + 1], sharp[25], total = 0;
    for (int i = 0; i <= 2 * RADIUS; i++)
        total += gauss[i] = expf(-(i - RADIUS) * (i - RADIUS) / 8.0f);
    for (float &weight : gauss)
        weight /= total;
    for (int i = 0; i < 25; i++)
        sharp[i] = i == 12 ? 2.0f : -1.0f / 24;
    std::vector<double> across(W * H), blurred(W * H), filtered(W * H);
    auto clamp = [](int v, int limit) { return std::min(std::max(v, 0), limit - 1); };
    for (int i = 0; i < W * H; i++)
        bytes[i] = (unsigned char)(image[i] * 255);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            for (int i = -RADIUS; i <= RADIUS; i++)
                across[y * W + x] += double(gauss[i + RADIUS]) * image[y * W + clamp(x + i, W)];
            for (int i = -2; i <= 2; i++)
                for (int j = -2; j <= 2; j++)
                    if (clamp(x + j, W) == x + j && clamp(y + i, H) == y + i)
                        filtered[y * W + x] += double(sharp[(i + 2) * 5 + j + 2]) * image[(y + i) * W + x + j];
            std::vector<unsigned char> v;
            for (int i = 0; i < 9; i++)
                v.push_back(bytes[clamp(y + i / 3 - 1, H) * W + clamp(x + i % 3 - 1, W)]);
            std::sort(v.begin(), v.end());
            middle[y * W + x] = v[4];
        }
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int i = -RADIUS; i <= RADIUS; i++)
                blurred[y * W + x] += gauss[i + RADIUS] * across[clamp(y + i, H) * W + x];
    CHECK(cudaMemcpyToSymbol(weights, gauss, sizeof gauss));
    CHECK(cudaMemcpyToSymbol(kernel5, sharp, sizeof sharp));
    suite::Device<float> in(image), half(W * H), out(W * H);
    suite::Device<unsigned char> in_bytes(bytes), out_bytes(W * H);
    dim3 grid(W / 128, H);
    rows<<<grid, 128>>>(in, half);
    columns<<<grid, 128>>>(half, out);
    suite::close("blurred", out.host(), blurred, 1e-5, 1e-6);
    direct<<<grid, 128>>>(in, out);
    suite::close("direct", out.host(), filtered, 1e-5, 1e-5);
    medians<<<grid, 128>>>(in_bytes, out_bytes);
    suite::equal("medians", out_bytes.host(), middle);
    suite::timed("rows", [&] { rows<<<grid, 128>>>(in, half); });
    suite::timed("columns", [&] { columns<<<grid, 128>>>(half, out); });
    suite::timed("direct", [&] { direct<<<grid, 128>>>(in, out); });
    suite::timed("medians", [&] { medians<<<grid, 128>>>(in_bytes, out_bytes); });
    return suite::finish();
}
