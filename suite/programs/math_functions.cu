// Functions of the math library in float and double over their domains, compared with those of the CPU in double.
#include "../timing.h"

#include <utility>

const int FUNCTIONS = 24;

// The functor has a number so that each function is compiled for itself.
template <int F, class T> __host__ __device__ inline T apply(T x)
{
    if (F == 0) return sin(x * T(10));
    if (F == 1) return cos(x * T(10));
    if (F == 2) return tan(x);
    if (F == 3) return exp(x * T(5));
    if (F == 4) return log(fabs(x) + T(0.01));
    if (F == 5) return sqrt(fabs(x));
    if (F == 6) return cbrt(x);
    if (F == 7) return atan(x * T(3));
    if (F == 8) return asin(x);
    if (F == 9) return acos(x);
    if (F == 10) return sinh(x);
    if (F == 11) return cosh(x);
    if (F == 12) return tanh(x);
    if (F == 13) return erf(x);
    if (F == 14) return erfc(x);
    if (F == 15) return tgamma(x + T(3));
    if (F == 16) return lgamma(x + T(4));
    if (F == 17) return pow(fabs(x) + T(0.5), x * T(3));
    if (F == 18) return atan2(x, T(0.7) - x);
    if (F == 19) return hypot(x, T(2));
    if (F == 20) return fmod(x * T(100), T(7.3));
    if (F == 21) return exp2(x * T(4)) + expm1(x);
    if (F == 22) return log10(fabs(x) + T(0.1)) + log1p(x * T(0.5));
    return floor(x * T(8)) + ceil(x * T(5)) * T(0.5) + trunc(x * T(3)) + round(x * T(6)) + rint(x * T(9)) + T(1) / (x + T(2));
}

template <int F, class T> __global__ void each(const T *x, T *y, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = apply<F, T>(x[i]);
}

template <class T> struct Function {
    void (*kernel)(const T *, T *, int);
    T (*host)(T);
};

template <class T, int... F> std::vector<Function<T>> functions(std::integer_sequence<int, F...>) { return {{each<F, T>, apply<F, T>}...}; }

template <class T> void check(const char *kind, double tolerance)
{
    const int n = 1 << 16;
    auto list = functions<T>(std::make_integer_sequence<int, FUNCTIONS>());
    for (int f = 0; f < FUNCTIONS; f++) {
        auto values = suite::floats(n, 411 + f, -0.999f, 0.999f);
        std::vector<T> x(values.begin(), values.end());
        std::vector<double> expected(n);
        for (int i = 0; i < n; i++)
            expected[i] = list[f].host(x[i]);
        suite::Device<T> in(x), out(n);
        auto launch = [&] { list[f].kernel<<<132, 256>>>(in.data(), out.data(), n); };
        launch();
        char name[32];
        snprintf(name, sizeof name, "%s%d", kind, f);
        suite::close(name, out.host(), expected, tolerance, tolerance);
        // A few that differ in kind; all would take too long.
        if (f % 5 == 0)
            suite::timed(name, launch);
    }
}

int main()
{
    check<float>("float", 4e-6);
    check<double>("double", 1e-13);
    return suite::finish();
}
