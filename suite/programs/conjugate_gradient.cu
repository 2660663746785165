// Conjugate gradients in double for the five-point Laplacian, with kernels for products, sums and updates.
#include "../timing.h"

const int N = 128, COUNT = N * N;

__global__ void laplacian(const double *x, double *y)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x, i = at / N, j = at % N;
    double sum = 4.0 * x[at];
    if (i > 0)
        sum -= x[at - N];
    if (i < N - 1)
        sum -= x[at + N];
    if (j > 0)
        sum -= x[at - 1];
    if (j < N - 1)
        sum -= x[at + 1];
    y[at] = sum;
}

// One block; the order of additions is fixed.
__global__ void dot(const double *x, const double *y, double *out)
{
    __shared__ double warps[32];
    double sum = 0;
    for (int i = threadIdx.x; i < COUNT; i += blockDim.x)
        sum += x[i] * y[i];
    for (int step = 16; step; step /= 2)
        sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = warps[threadIdx.x];
        for (int step = 16; step; step /= 2)
            sum += __shfl_down_sync(~0u, sum, step);
        if (threadIdx.x == 0)
            *out = sum;
    }
}

// scalars: 0 the old square of the residual, 1 the product of direction and image, 2 the new square.
__global__ void advance(double *x, double *residual, const double *direction, const double *image, const double *scalars)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    double alpha = scalars[0] / scalars[1];
    x[at] += alpha * direction[at];
    residual[at] -= alpha * image[at];
}

__global__ void redirect(double *direction, const double *residual, const double *scalars)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    direction[at] = residual[at] + scalars[2] / scalars[0] * direction[at];
}

int main()
{
    auto values = suite::floats(COUNT, 131);
    std::vector<double> solution(values.begin(), values.end()), right(COUNT);
    for (int at = 0; at < COUNT; at++) {
        int i = at / N, j = at % N;
        right[at] = 4 * solution[at] - (i ? solution[at - N] : 0) - (i < N - 1 ? solution[at + N] : 0) - (j ? solution[at - 1] : 0)
            - (j < N - 1 ? solution[at + 1] : 0);
    }
    suite::Device<double> x(COUNT), residual(right), direction(right), image(COUNT), scalars(3);
    const int blocks = COUNT / 128;
    dot<<<1, 1024>>>(residual, residual, scalars);
    int rounds = 0;
    for (; rounds < 1000; rounds++) {
        laplacian<<<blocks, 128>>>(direction, image);
        dot<<<1, 1024>>>(direction, image, scalars + 1);
        advance<<<blocks, 128>>>(x, residual, direction, image, scalars);
        dot<<<1, 1024>>>(residual, residual, scalars + 2);
        redirect<<<blocks, 128>>>(direction, residual, scalars);
        CHECK(cudaMemcpyAsync(scalars, scalars + 2, 8, cudaMemcpyDeviceToDevice));
        if (rounds % 20 == 19 && scalars.host()[0] < 1e-18)
            break;
    }
    printf("converged: %s\n", rounds < 1000 ? "yes" : "no");
    suite::close("solution", x.host(), solution, 1e-6, 1e-7);
    suite::timed("laplacian", [&] { laplacian<<<blocks, 128>>>(direction, image); });
    suite::timed("dot", [&] { dot<<<1, 1024>>>(direction, image, scalars + 1); });
    suite::timed("advance", [&] { advance<<<blocks, 128>>>(x, residual, direction, image, scalars); });
    return suite::finish();
}
