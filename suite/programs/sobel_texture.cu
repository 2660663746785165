// Edges of an image that is read through texture objects: clamped addresses, normalized bytes, and linear interpolation for a second image.
#include "../timing.h"

__global__ void sobel(cudaTextureObject_t image, float *out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    float v[3][3];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            v[i][j] = tex2D<float>(image, x + j - 1 + 0.5f, y + i - 1 + 0.5f);
    float gx = v[0][2] + 2 * v[1][2] + v[2][2] - v[0][0] - 2 * v[1][0] - v[2][0];
    float gy = v[2][0] + 2 * v[2][1] + v[2][2] - v[0][0] - 2 * v[0][1] - v[0][2];
    out[y * width + x] = sqrtf(gx * gx + gy * gy);
}

// Turns the image by an angle and makes it smaller.
__global__ void turn(cudaTextureObject_t image, float *out, int width, int height, float sine, float cosine)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    float u = x - width * 0.5f, v = y - height * 0.5f;
    out[y * width + x] = tex2D<float>(image, u * cosine - v * sine + width * 0.5f, u * sine + v * cosine + height * 0.5f);
}

int main()
{
    const int width = 512, height = 384;
    std::vector<unsigned char> pixels(width * height);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            pixels[y * width + x] = (unsigned char)(127 + 100 * sin(x * 0.05) * cos(y * 0.07));
    std::vector<float> smooth(width * height), edges(width * height), turned(width * height);
    for (int i = 0; i < width * height; i++)
        smooth[i] = pixels[i] / 255.0f;
    auto at = [&](int x, int y) { return smooth[std::min(std::max(y, 0), height - 1) * width + std::min(std::max(x, 0), width - 1)]; };
    const float sine = 0.5f, cosine = 0.8660254f;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            float gx = at(x + 1, y - 1) + 2 * at(x + 1, y) + at(x + 1, y + 1) - at(x - 1, y - 1) - 2 * at(x - 1, y) - at(x - 1, y + 1);
            float gy = at(x - 1, y + 1) + 2 * at(x, y + 1) + at(x + 1, y + 1) - at(x - 1, y - 1) - 2 * at(x, y - 1) - at(x + 1, y - 1);
            edges[y * width + x] = sqrtf(gx * gx + gy * gy);
            float u = x - width * 0.5f, v = y - height * 0.5f;
            float s = u * cosine - v * sine + width * 0.5f - 0.5f, t = u * sine + v * cosine + height * 0.5f - 0.5f;
            int i = int(floorf(s)), j = int(floorf(t));
            float a = s - i, b = t - j;
            turned[y * width + x] = (1 - b) * ((1 - a) * at(i, j) + a * at(i + 1, j)) + b * ((1 - a) * at(i, j + 1) + a * at(i + 1, j + 1));
        }

    cudaArray_t bytes, values;
    cudaChannelFormatDesc byte_format = cudaCreateChannelDesc<unsigned char>(), float_format = cudaCreateChannelDesc<float>();
    CHECK(cudaMallocArray(&bytes, &byte_format, width, height));
    CHECK(cudaMallocArray(&values, &float_format, width, height));
    CHECK(cudaMemcpy2DToArray(bytes, 0, 0, pixels.data(), width, width, height, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2DToArray(values, 0, 0, smooth.data(), width * 4, width * 4, height, cudaMemcpyHostToDevice));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    cudaTextureDesc texture = {};
    texture.addressMode[0] = texture.addressMode[1] = cudaAddressModeClamp;
    texture.readMode = cudaReadModeNormalizedFloat;
    texture.filterMode = cudaFilterModePoint;
    cudaTextureObject_t sharp, linear;
    resource.res.array.array = bytes;
    CHECK(cudaCreateTextureObject(&sharp, &resource, &texture, nullptr));
    resource.res.array.array = values;
    texture.readMode = cudaReadModeElementType;
    texture.filterMode = cudaFilterModeLinear;
    CHECK(cudaCreateTextureObject(&linear, &resource, &texture, nullptr));

    suite::Device<float> out(width * height);
    dim3 grid(width / 16, height / 16), block(16, 16);
    auto find = [&] { sobel<<<grid, block>>>(sharp, out, width, height); };
    auto rotate = [&] { turn<<<grid, block>>>(linear, out, width, height, sine, cosine); };
    find();
    suite::close("edges", out.host(), edges, 1e-3, 1e-4);
    rotate();
    // Textures interpolate with 8 bits of fraction.
    suite::close("turned", out.host(), turned, 0, 0.01);
    suite::timed("sobel", find);
    suite::timed("turn", rotate);
    CHECK(cudaDestroyTextureObject(sharp));
    CHECK(cudaDestroyTextureObject(linear));
    return suite::finish();
}
