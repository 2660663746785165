// A captured graph of kernels that is launched many times, and surfaces that kernels read and write.
#include "../timing.h"

const int W = 512, H = 256;

__global__ void paint(cudaSurfaceObject_t surface)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    surf2Dwrite(float(x % 37) * 0.5f + float(y % 11), surface, x * 4, y);
}

// A step of smoothing from one surface to another; outside is zero.
__global__ void smooth(cudaSurfaceObject_t from, cudaSurfaceObject_t to)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0;
    for (int i = -1; i <= 1; i++)
        for (int j = -1; j <= 1; j++)
            sum += surf2Dread<float>(from, (x + j) * 4, y + i, cudaBoundaryModeZero);
    surf2Dwrite(sum * 0.125f, to, x * 4, y);
}

__global__ void collect(cudaSurfaceObject_t surface, float *out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    out[y * W + x] = surf2Dread<float>(surface, x * 4, y);
}

__global__ void step(uint32_t *x, uint32_t add)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    x[at] = x[at] * 1664525u + add;
}

int main()
{
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t arrays[2];
    cudaSurfaceObject_t surfaces[2];
    for (int i = 0; i < 2; i++) {
        CHECK(cudaMallocArray(&arrays[i], &format, W, H, cudaArraySurfaceLoadStore));
        cudaResourceDesc resource = {};
        resource.resType = cudaResourceTypeArray;
        resource.res.array.array = arrays[i];
        CHECK(cudaCreateSurfaceObject(&surfaces[i], &resource));
    }
    std::vector<float> image(W * H), next(W * H);
    for (int i = 0; i < W * H; i++)
        image[i] = float(i % W % 37) * 0.5f + float(i / W % 11);
    dim3 grid(W / 32, H / 8), block(32, 8);
    suite::Device<float> out(W * H);
    paint<<<grid, block>>>(surfaces[0]);
    for (int round = 0; round < 4; round++) {
        smooth<<<grid, block>>>(surfaces[round % 2], surfaces[1 - round % 2]);
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                float sum = 0;
                for (int i = std::max(0, y - 1); i <= std::min(H - 1, y + 1); i++)
                    for (int j = std::max(0, x - 1); j <= std::min(W - 1, x + 1); j++)
                        sum += image[i * W + j];
                next[y * W + x] = sum * 0.125f;
            }
        std::swap(image, next);
    }
    collect<<<grid, block>>>(surfaces[0], out);
    suite::close("smooth", out.host(), image, 1e-5, 1e-6);

    const int n = 1 << 16;
    auto words = suite::words(n, 401), expected = words;
    suite::Device<uint32_t> x(words);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (uint32_t i = 1; i <= 8; i++)
        step<<<n / 256, 256, 0, stream>>>(x, i * 1013904223u);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 10; i++)
        CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (uint32_t &v : expected)
        for (int i = 0; i < 80; i++)
            v = v * 1664525u + (i % 8 + 1) * 1013904223u;
    suite::equal("graph", x.host(), expected);
    suite::timed("smooth", [&] { smooth<<<grid, block>>>(surfaces[0], surfaces[1]); });
    suite::timed("step", [&] { step<<<n / 256, 256>>>(x, 1); });
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    return suite::finish();
}
