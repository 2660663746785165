// Prices of options by formula and by a binomial tree in shared memory; implied volatility by Newton's method.
#include "../timing.h"

template <class T> __host__ __device__ inline T normal(T d) { return T(0.5) * erfc(-d * T(0.70710678118654752440)); }

template <class T> __host__ __device__ inline T call_price(T s, T x, T t, T rate, T volatility)
{
    T root = sqrt(t), d1 = (log(s / x) + (rate + T(0.5) * volatility * volatility) * t) / (volatility * root), d2 = d1 - volatility * root;
    return s * normal(d1) - x * exp(-rate * t) * normal(d2);
}

template <class T> __global__ void formula(const T *s, const T *x, const T *t, T *call, T *put, int n, T rate, T volatility)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        T price = call_price(s[i], x[i], t[i], rate, volatility);
        call[i] = price;
        put[i] = price - s[i] + x[i] * exp(-rate * t[i]);
    }
}

const int STEPS = 128;

// American puts: a block for each, from the leaves to the root.
__global__ void binomial(const double *s, const double *x, const double *t, double *put, double rate, double volatility)
{
    __shared__ double values[STEPS + 1];
    int at = blockIdx.x, i = threadIdx.x;
    double dt = t[at] / STEPS, up = exp(volatility * sqrt(dt)), down = 1 / up, discount = exp(-rate * dt);
    double p = (exp(rate * dt) - down) / (up - down);
    values[i] = fmax(0.0, x[at] - s[at] * pow(up, 2.0 * i - STEPS));
    if (i == 0)
        values[STEPS] = fmax(0.0, x[at] - s[at] * pow(up, double(STEPS)));
    __syncthreads();
    for (int step = STEPS - 1; step >= 0; step--) {
        double value = 0;
        if (i <= step)
            value = fmax(discount * (p * values[i + 1] + (1 - p) * values[i]), x[at] - s[at] * pow(up, 2.0 * i - step));
        __syncthreads();
        if (i <= step)
            values[i] = value;
        __syncthreads();
    }
    if (i == 0)
        put[at] = values[0];
}

__global__ void implied(const double *s, const double *x, const double *t, const double *call, double *out, int n, double rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    double v = 0.5;
    for (int step = 0; step < 30; step++) {
        double root = sqrt(t[i]), d1 = (log(s[i] / x[i]) + (rate + 0.5 * v * v) * t[i]) / (v * root);
        double slope = s[i] * root * 0.3989422804014327 * exp(-0.5 * d1 * d1), off = call_price(s[i], x[i], t[i], rate, v) - call[i];
        if (fabs(off) < 1e-10)
            break;
        v = fmin(fmax(v - off / slope, 0.01), 4.0);
    }
    out[i] = v;
}

int main()
{
    const int n = 1 << 17, few = 132;
    auto a = suite::floats(n, 361, 80, 120), b = suite::floats(n, 362, 80, 120), c = suite::floats(n, 363, 0.25f, 2);
    std::vector<double> s(a.begin(), a.end()), x(b.begin(), b.end()), t(c.begin(), c.end()), call(n), put(n), american(few), volatility(n / 8, 0.3);
    for (int i = 0; i < n; i++) {
        call[i] = call_price(s[i], x[i], t[i], 0.02, 0.3);
        put[i] = call[i] - s[i] + x[i] * exp(-0.02 * t[i]);
    }
    for (int k = 0; k < few; k++) {
        double dt = t[k] / STEPS, up = exp(0.3 * sqrt(dt)), p = (exp(0.02 * dt) - 1 / up) / (up - 1 / up);
        std::vector<double> values(STEPS + 1);
        for (int i = 0; i <= STEPS; i++)
            values[i] = std::max(0.0, x[k] - s[k] * pow(up, 2.0 * i - STEPS));
        for (int step = STEPS - 1; step >= 0; step--)
            for (int i = 0; i <= step; i++)
                values[i] = std::max(exp(-0.02 * dt) * (p * values[i + 1] + (1 - p) * values[i]), x[k] - s[k] * pow(up, 2.0 * i - step));
        american[k] = values[0];
    }
    suite::Device<float> fs(a), fx(b), ft(c), fcall(n), fput(n);
    suite::Device<double> ds(s), dx(x), dt(t), dcall(n), dput(n), tree(few), sigma(n / 8);
    auto single = [&] { formula<float><<<512, 256>>>(fs.data(), fx.data(), ft.data(), fcall.data(), fput.data(), n, 0.02f, 0.3f); };
    auto twice = [&] { formula<double><<<512, 256>>>(ds.data(), dx.data(), dt.data(), dcall.data(), dput.data(), n, 0.02, 0.3); };
    auto leaves = [&] { binomial<<<few, STEPS>>>(ds, dx, dt, tree, 0.02, 0.3); };
    auto newton = [&] { implied<<<n / 8 / 128, 128>>>(ds, dx, dt, dcall, sigma, n / 8, 0.02); };
    single();
    suite::close("float calls", fcall.host(), call, 1e-3, 1e-3);
    suite::close("float puts", fput.host(), put, 1e-3, 1e-3);
    twice();
    suite::close("double calls", dcall.host(), call, 1e-10, 1e-10);
    suite::close("double puts", dput.host(), put, 1e-10, 1e-10);
    leaves();
    suite::close("american puts", tree.host(), american, 1e-9, 1e-9);
    newton();
    suite::close("volatility", sigma.host(), volatility, 1e-6, 1e-6);
    suite::timed("float", single);
    suite::timed("double", twice);
    suite::timed("binomial", leaves);
    suite::timed("implied", newton);
    return suite::finish();
}
