// The Mandelbrot set in float and double, with a device class for complex numbers and the same number of steps as on the CPU.
#include "../timing.h"

template <class T> struct Complex {
    T re, im;
    __host__ __device__ Complex operator+(Complex o) const { return {re + o.re, im + o.im}; }
    __host__ __device__ T square() const { return re * re + im * im; }
};

// Powers of two keep products exact enough: explicit rounding on both sides gives the same number of steps.
__device__ inline float multiply(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double multiply(double a, double b) { return __dmul_rn(a, b); }
__device__ inline float add(float a, float b) { return __fadd_rn(a, b); }
__device__ inline double add(double a, double b) { return __dadd_rn(a, b); }

template <class T> __device__ int steps_device(Complex<T> c, int limit)
{
    T x = 0, y = 0;
    int i = 0;
    for (; i < limit; i++) {
        T xx = multiply(x, x), yy = multiply(y, y), xy = multiply(x, y);
        if (add(xx, yy) > T(4))
            break;
        x = add(add(xx, -yy), c.re);
        y = add(add(xy, xy), c.im);
    }
    return i;
}

template <class T> int steps_host(Complex<T> c, int limit)
{
    volatile T x = 0, y = 0;
    int i = 0;
    for (; i < limit; i++) {
        volatile T xx = x * x, yy = y * y, xy = x * y, sum = xx + yy, difference = xx - yy, twice = xy + xy;
        if (sum > T(4))
            break;
        x = difference + c.re;
        y = twice + c.im;
    }
    return i;
}

template <class T> __host__ __device__ Complex<T> point(int x, int y, int size)
{
    return {T(x) / T(size) * T(3) - T(2), T(y) / T(size) * T(3) - T(1.5)};
}

template <class T> __global__ void draw(int *out, int size, int limit)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < size && y < size)
        out[y * size + x] = steps_device(point<T>(x, y, size), limit);
}

int main()
{
    // A power of two, so that the coordinates are exact.
    const int size = 512, limit = 200;
    std::vector<int> singles(size * size), doubles(size * size);
    for (int i = 0; i < size * size; i++) {
        singles[i] = steps_host(point<float>(i % size, i / size, size), limit);
        doubles[i] = steps_host(point<double>(i % size, i / size, size), limit);
    }
    suite::Device<int> out(size * size);
    dim3 grid(size / 16, size / 16), block(16, 16);
    auto single = [&] { draw<float><<<grid, block>>>(out.data(), size, limit); };
    auto twice = [&] { draw<double><<<grid, block>>>(out.data(), size, limit); };
    single();
    suite::equal("float", out.host(), singles);
    twice();
    suite::equal("double", out.host(), doubles);
    suite::timed("float", single);
    suite::timed("double", twice);
    return suite::finish();
}
