// Transposed matrices: plain, with padded tiles in dynamic shared memory for elements of 1 to 16 bytes, and in place.
#include "../timing.h"

template <class T> __global__ void plain(const T *x, T *y, int width, int height)
{
    int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < height && j < width)
        y[j * height + i] = x[i * width + j];
}

template <class T, int TILE> __global__ void tiled(const T *x, T *y, int width, int height)
{
    extern __shared__ unsigned char memory[];
    T *tile = (T *)memory;
    int j = blockIdx.x * TILE + threadIdx.x, i = blockIdx.y * TILE;
    for (int k = threadIdx.y; k < TILE; k += blockDim.y)
        if (i + k < height && j < width)
            tile[k * (TILE + 1) + threadIdx.x] = x[(i + k) * width + j];
    __syncthreads();
    int u = blockIdx.y * TILE + threadIdx.x, v = blockIdx.x * TILE;
    for (int k = threadIdx.y; k < TILE; k += blockDim.y)
        if (v + k < width && u < height)
            y[(v + k) * height + u] = tile[threadIdx.x * (TILE + 1) + k];
}

// Two tiles change places.
__global__ void in_place(uint32_t *x, int n)
{
    __shared__ uint32_t first[16][17], second[16][17];
    int i = blockIdx.y, j = blockIdx.x, u = threadIdx.y, v = threadIdx.x;
    if (j > i)
        return;
    first[u][v] = x[(i * 16 + u) * n + j * 16 + v];
    second[u][v] = x[(j * 16 + u) * n + i * 16 + v];
    __syncthreads();
    x[(i * 16 + u) * n + j * 16 + v] = second[v][u];
    x[(j * 16 + u) * n + i * 16 + v] = first[v][u];
}

template <class T> void check(const char *name, int width, int height)
{
    auto words = suite::words((size_t(width) * height * sizeof(T) + 3) / 4, sizeof(T));
    std::vector<T> x(width * height), expected(width * height);
    memcpy(x.data(), words.data(), x.size() * sizeof(T));
    for (int i = 0; i < height; i++)
        for (int j = 0; j < width; j++)
            expected[j * height + i] = x[i * width + j];
    suite::Device<T> in(x), out(width * height);
    auto simple = [&] { plain<T><<<dim3((width + 31) / 32, (height + 7) / 8), dim3(32, 8)>>>(in.data(), out.data(), width, height); };
    auto fast = [&] { tiled<T, 32><<<dim3((width + 31) / 32, (height + 31) / 32), dim3(32, 8), 32 * 33 * sizeof(T)>>>(in.data(), out.data(), width, height); };
    simple();
    suite::equal(name, out.host(), expected);
    out.clear();
    fast();
    suite::equal(name, out.host(), expected);
    char label[64];
    snprintf(label, sizeof label, "plain_%s", name);
    suite::timed(label, simple);
    snprintf(label, sizeof label, "tiled_%s", name);
    suite::timed(label, fast);
}

int main()
{
    check<unsigned char>("bytes", 1001, 777);
    check<unsigned short>("shorts", 1024, 768);
    check<float>("floats", 1000, 1000);
    check<double>("doubles", 640, 480);
    check<uint4>("fours", 320, 200);
    const int n = 1024;
    auto words = suite::words(n * n, 331), expected = words;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            std::swap(expected[i * n + j], expected[j * n + i]);
    suite::Device<uint32_t> x(words);
    auto launch = [&] { in_place<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(x, n); };
    launch();
    suite::equal("in place", x.host(), expected);
    suite::timed("in_place", launch);
    return suite::finish();
}
