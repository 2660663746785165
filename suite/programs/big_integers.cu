// Wide integers: products of 128 bits, modular powers by Montgomery, division and remainder of all sizes, primes by Miller and Rabin.
#include "../timing.h"

__host__ __device__ inline uint64_t multiply_high(uint64_t a, uint64_t b)
{
#ifdef __CUDA_ARCH__
    return __umul64hi(a, b);
#else
    return uint64_t((unsigned __int128)a * b >> 64);
#endif
}

// a b mod n for odd n below 2^63, numbers in Montgomery form.
__host__ __device__ inline uint64_t montgomery(uint64_t a, uint64_t b, uint64_t n, uint64_t inverse)
{
    uint64_t low = a * b, high = multiply_high(a, b), m = low * inverse, add = multiply_high(m, n);
    uint64_t result = high + add + (low != 0);
    return result >= n ? result - n : result;
}

__host__ __device__ inline bool is_prime(uint64_t n)
{
    if (n < 2 || n % 2 == 0)
        return n == 2;
    uint64_t inverse = n;
    for (int i = 0; i < 5; i++)
        inverse *= 2 - n * inverse;
    inverse = 0 - inverse;
    // 2^64 mod n is one in Montgomery form.
    uint64_t one = (0 - n) % n, minus = n - one, odd = n - 1;
    int twos = 0;
    for (; odd % 2 == 0; odd /= 2)
        twos++;
    const uint64_t bases[7] = {2, 325, 9375, 28178, 450775, 9780504, 1795265022};
    for (int k = 0; k < 7; k++) {
        uint64_t base = bases[k] % n;
        if (base == 0)
            continue;
        // base times 2^64 mod n, by doubling.
        uint64_t power = base, result = one;
        for (int i = 0; i < 64; i++)
            power = power >= n - power ? power - (n - power) : power + power;
        for (uint64_t e = odd; e; e /= 2) {
            if (e % 2)
                result = montgomery(result, power, n, inverse);
            power = montgomery(power, power, n, inverse);
        }
        bool passes = result == one || result == minus;
        for (int i = 1; i < twos && !passes; i++) {
            result = montgomery(result, result, n, inverse);
            passes = result == minus;
        }
        if (!passes)
            return false;
    }
    return true;
}

__global__ void primes(const uint64_t *x, int *out, int n)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n)
        out[at] = is_prime(x[at]);
}

template <class T> __host__ __device__ inline T divide_all(T a, T b, T c)
{
    T sum = a / b * 3 + a % b + c / 7 * 5 + c % 7 + a / 1000 + a % 1000 * 11 + c / T(10) % T(10);
    return sum;
}

template <class T> __global__ void divisions(const T *x, const T *y, T *out, int n)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n)
        out[at] = divide_all(x[at], y[at], T(x[at] ^ y[at]));
}

__global__ void wide_products(const uint64_t *x, const uint64_t *y, uint64_t *out, int n)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n)
        return;
    unsigned __int128 product = (unsigned __int128)x[at] * y[at];
    product += (unsigned __int128)y[at] << 37;
    product ^= product >> 51;
    out[at] = uint64_t(product >> 64) + uint64_t(product) * 3 + (product > (unsigned __int128)x[at] << 60);
}

template <class T> void check_division(const char *name, int n)
{
    auto bits = suite::words(4 * n, sizeof(T) + (T(-1) < 0));
    std::vector<T> x(n), y(n), expected(n);
    for (int i = 0; i < n; i++) {
        uint64_t u = uint64_t(bits[4 * i]) << 32 | bits[4 * i + 1], v = uint64_t(bits[4 * i + 2]) << 32 | bits[4 * i + 3];
        // Numbers of all lengths.
        x[i] = T(u >> bits[4 * i + 2] % 48);
        y[i] = T(v >> bits[4 * i] % 62);
        if (y[i] == 0 || y[i] == T(-1))
            y[i] = 3;
        expected[i] = divide_all(x[i], y[i], T(x[i] ^ y[i]));
    }
    suite::Device<T> left(x), right(y), out(n);
    auto launch = [&] { divisions<T><<<n / 128, 128>>>(left.data(), right.data(), out.data(), n); };
    launch();
    suite::equal(name, out.host(), expected);
    suite::timed(name, launch);
}

int main()
{
    const int n = 1 << 14;
    auto bits = suite::words(4 * n, 371);
    std::vector<uint64_t> x(n), y(n), wide(n);
    std::vector<int> expected(n);
    for (int i = 0; i < n; i++) {
        x[i] = (uint64_t(bits[2 * i]) << 32 | bits[2 * i + 1]) >> (1 + i % 40) | 1;
        y[i] = uint64_t(bits[2 * n + 2 * i]) << 32 | bits[2 * n + 2 * i + 1];
        expected[i] = is_prime(x[i]);
        unsigned __int128 product = (unsigned __int128)x[i] * y[i];
        product += (unsigned __int128)y[i] << 37;
        product ^= product >> 51;
        wide[i] = uint64_t(product >> 64) + uint64_t(product) * 3 + (product > (unsigned __int128)x[i] << 60);
    }
    suite::equal("2^61 - 1 is prime", int(is_prime((1ull << 61) - 1)), 1);
    suite::Device<uint64_t> in(x), other(y), out(n);
    suite::Device<int> found(n);
    auto test = [&] { primes<<<n / 64, 64>>>(in, found, n); };
    auto products = [&] { wide_products<<<n / 128, 128>>>(in, other, out, n); };
    test();
    suite::equal("primes", found.host(), expected);
    products();
    suite::equal("wide", out.host(), wide);
    suite::timed("primes", test);
    suite::timed("wide", products);
    check_division<int>("int", 1 << 17);
    check_division<uint32_t>("unsigned", 1 << 17);
    check_division<long long>("long long", 1 << 17);
    check_division<unsigned long long>("unsigned long long", 1 << 17);
    check_division<unsigned short>("unsigned short", 1 << 17);
    return suite::finish();
}
