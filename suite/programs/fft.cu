// Fourier transforms of 1024 points: Stockham steps of radix 4 in shared memory, and a transform in double for comparison.
#include "../timing.h"

const int N = 1024;

struct Pair {
    float re, im;
};

__device__ inline Pair operator+(Pair a, Pair b) { return {a.re + b.re, a.im + b.im}; }
__device__ inline Pair operator-(Pair a, Pair b) { return {a.re - b.re, a.im - b.im}; }
__device__ inline Pair operator*(Pair a, Pair b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
// Times -i.
__device__ inline Pair turned(Pair a) { return {a.im, -a.re}; }

// A block transforms a row; each of 256 threads has four points.
__global__ void transform(const Pair *in, Pair *out)
{
    __shared__ Pair points[N];
    int thread = threadIdx.x;
    Pair v[4];
    for (int i = 0; i < 4; i++)
        v[i] = in[blockIdx.x * N + thread + i * 256];
    for (int size = 1; size < N; size *= 4) {
        int low = thread % size;
        float angle = -2.0f * low / (4 * size);
        for (int i = 1; i < 4; i++) {
            Pair w;
            sincospif(angle * i, &w.im, &w.re);
            v[i] = v[i] * w;
        }
        Pair a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = turned(v[1] - v[3]);
        v[0] = a + c, v[1] = b + d, v[2] = a - c, v[3] = b - d;
        int place = (thread - low) * 4 + low;
        __syncthreads();
        for (int i = 0; i < 4; i++)
            points[place + i * size] = v[i];
        __syncthreads();
        for (int i = 0; i < 4; i++)
            v[i] = points[thread + i * 256];
    }
    for (int i = 0; i < 4; i++)
        out[blockIdx.x * N + thread + i * 256] = v[i];
}

// The transform by its definition, for some of the frequencies.
__global__ void definition(const Pair *in, double *out, int rows)
{
    int frequency = blockIdx.x, row = threadIdx.x;
    if (row >= rows)
        return;
    double re = 0, im = 0;
    for (int i = 0; i < N; i++) {
        double s, c;
        sincospi(-2.0 * (i * frequency % N) / N, &s, &c);
        Pair p = in[row * N + i];
        re += p.re * c - p.im * s;
        im += p.re * s + p.im * c;
    }
    out[(row * gridDim.x + frequency) * 2] = re;
    out[(row * gridDim.x + frequency) * 2 + 1] = im;
}

int main()
{
    const int rows = 512, few = 8;
    auto values = suite::floats(rows * N * 2, 141);
    std::vector<Pair> x(rows * N);
    memcpy(x.data(), values.data(), values.size() * 4);
    std::vector<double> expected(few * few * 2);
    for (int row = 0; row < few; row++)
        for (int frequency = 0; frequency < few; frequency++)
            for (int i = 0; i < N; i++) {
                double angle = -2 * M_PI * (i * frequency % N) / N, c = cos(angle), s = sin(angle);
                expected[(row * few + frequency) * 2] += x[row * N + i].re * c - x[row * N + i].im * s;
                expected[(row * few + frequency) * 2 + 1] += x[row * N + i].re * s + x[row * N + i].im * c;
            }
    suite::Device<Pair> in(x), out(rows * N);
    suite::Device<double> exact(few * few * 2);
    auto fast = [&] { transform<<<rows, 256>>>(in, out); };
    auto slow = [&] { definition<<<few, 32>>>(in, exact, few); };
    fast();
    auto got = out.host();
    std::vector<float> part(few * few * 2);
    for (int row = 0; row < few; row++)
        for (int frequency = 0; frequency < few; frequency++)
            memcpy(&part[(row * few + frequency) * 2], &got[row * N + frequency], 8);
    suite::close("radix 4", part, expected, 1e-3, 1e-3);
    slow();
    suite::close("definition", exact.host(), expected, 1e-9, 1e-9);
    suite::timed("transform", fast);
    suite::timed("definition", slow);
    return suite::finish();
}
