// Flow past a cylinder by the lattice Boltzmann method with nine directions: long expressions and nine streams of memory.
#include "../timing.h"

const int NX = 256, NY = 128, CELLS = NX * NY;

__host__ __device__ inline bool solid(int x, int y)
{
    int dx = x - NX / 4, dy = y - NY / 2;
    return dx * dx + dy * dy < 100 || y == 0 || y == NY - 1;
}

__host__ __device__ inline void cell(const float *in, float *out, int x, int y)
{
    const int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1}, opposite[9] = {0, 3, 4, 1, 2, 7, 8, 5, 6};
    const float w[9] = {4 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f};
    float f[9], density = 0, ux = 0, uy = 0;
#pragma unroll
    for (int i = 0; i < 9; i++) {
        int sx = (x - cx[i] + NX) % NX, sy = (y - cy[i] + NY) % NY;
        f[i] = in[i * CELLS + sy * NX + sx];
        density += f[i];
        ux += cx[i] * f[i];
        uy += cy[i] * f[i];
    }
    if (solid(x, y)) {
#pragma unroll
        for (int i = 0; i < 9; i++)
            out[opposite[i] * CELLS + y * NX + x] = f[i];
        return;
    }
    ux = ux / density + 1e-5f;
    uy /= density;
    float square = 1.5f * (ux * ux + uy * uy);
#pragma unroll
    for (int i = 0; i < 9; i++) {
        float along = 3.0f * (cx[i] * ux + cy[i] * uy);
        float rest = w[i] * density * (1.0f + along + 0.5f * along * along - square);
        out[i * CELLS + y * NX + x] = f[i] - 1.2f * (f[i] - rest);
    }
}

__global__ void step(const float *in, float *out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    cell(in, out, x, y);
}

__global__ void speeds(const float *in, float2 *out)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float f[9], density = 0;
    for (int i = 0; i < 9; i++)
        density += f[i] = in[i * CELLS + at];
    out[at] = make_float2((f[1] + f[5] + f[8] - f[3] - f[6] - f[7]) / density, (f[2] + f[5] + f[6] - f[4] - f[7] - f[8]) / density);
}

int main()
{
    std::vector<float> state(9 * CELLS), next(9 * CELLS);
    const float w[9] = {4 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f};
    const int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1};
    for (int i = 0; i < 9; i++)
        for (int at = 0; at < CELLS; at++)
            state[i * CELLS + at] = w[i] * (1 + 0.3f * cx[i] + 0.01f * (at % 7));
    suite::Device<float> a(state), b(9 * CELLS);
    suite::Device<float2> flow(CELLS);
    auto launch = [&] {
        step<<<dim3(NX / 128, NY), 128>>>(a, b);
        step<<<dim3(NX / 128, NY), 128>>>(b, a);
    };
    for (int i = 0; i < 10; i++) {
        launch();
        for (int half = 0; half < 2; half++) {
            for (int at = 0; at < CELLS; at++)
                cell(state.data(), next.data(), at % NX, at / NX);
            std::swap(state, next);
        }
    }
    suite::close("populations", a.host(), state, 1e-3, 1e-5);
    speeds<<<CELLS / 128, 128>>>(a, flow);
    auto got = flow.host();
    double sum = 0;
    for (float2 v : got)
        sum += sqrt(v.x * v.x + v.y * v.y);
    printf("mean speed %.3f\n", sum / CELLS);
    suite::timed("two steps", launch);
    suite::timed("speeds", [&] { speeds<<<CELLS / 128, 128>>>(a, flow); });
    return suite::finish();
}
