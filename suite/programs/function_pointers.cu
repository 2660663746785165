// Indirect calls: a table of device functions, virtual methods of objects made on the device, and a functor as a template parameter.
#include "../timing.h"

typedef int (*Operation)(int, int);

__host__ __device__ int add(int a, int b) { return a + b; }
__host__ __device__ int subtract(int a, int b) { return a - b; }
__host__ __device__ int multiply(int a, int b) { return a * b; }
__host__ __device__ int largest(int a, int b) { return a > b ? a : b; }

__device__ Operation table[4] = {add, subtract, multiply, largest};

// A small machine: each step takes an operation from the program.
__global__ void interpret(const unsigned char *program, int length, const int *x, int *y)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x, value = x[at];
    for (int i = 0; i < length; i++)
        value = table[program[i]](value, x[at] + i);
    y[at] = value;
}

struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual ~Shape() {}
};

struct Square : Shape {
    float side;
    __device__ Square(float side) : side(side) {}
    __device__ float area() const override { return side * side; }
};

struct Triangle : Shape {
    float base, height;
    __device__ Triangle(float base, float height) : base(base), height(height) {}
    __device__ float area() const override { return 0.5f * base * height; }
};

__global__ void areas(const float *sizes, float *out, int n)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n)
        return;
    Square square(sizes[at]);
    Triangle triangle(sizes[at], 3.0f);
    const Shape *shape = at % 3 ? (const Shape *)&square : (const Shape *)&triangle;
    out[at] = shape->area();
}

template <class F> __global__ void apply(const int *x, int *y, F f)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    y[at] = f(x[at], at);
}

struct Shifted {
    int by;
    __host__ __device__ int operator()(int a, int b) const { return (a << by) ^ b; }
};

int main()
{
    const int n = 1 << 16, length = 64;
    auto bits = suite::words(n, 101);
    std::vector<int> x(bits.begin(), bits.end()), expected(n), shifted(n);
    std::vector<unsigned char> program(length);
    for (int i = 0; i < length; i++)
        program[i] = bits[i] >> 20 & 3;
    Operation host[4] = {add, subtract, multiply, largest};
    auto sizes = suite::floats(n, 102, 1, 10);
    std::vector<float> surface(n);
    for (int i = 0; i < n; i++) {
        // Sums of unsigned words do not overflow.
        uint32_t value = x[i];
        for (int k = 0; k < length; k++) {
            uint32_t other = uint32_t(x[i]) + k;
            value = program[k] == 0 ? value + other : program[k] == 1 ? value - other : program[k] == 2 ? value * other : host[3](value, other);
        }
        expected[i] = value;
        shifted[i] = (uint32_t(x[i]) << 5) ^ i;
        surface[i] = i % 3 ? sizes[i] * sizes[i] : 0.5f * sizes[i] * 3.0f;
    }
    suite::Device<unsigned char> code(program);
    suite::Device<int> in(x), out(n);
    suite::Device<float> widths(sizes), results(n);
    auto machine = [&] { interpret<<<n / 256, 256>>>(code, length, in, out); };
    machine();
    suite::equal("interpreted", out.host(), expected);
    areas<<<n / 256, 256>>>(widths, results, n);
    suite::close("areas", results.host(), surface, 1e-6, 0);
    apply<<<n / 256, 256>>>(in.data(), out.data(), Shifted{5});
    suite::equal("shifted", out.host(), shifted);
    suite::timed("interpret", machine);
    suite::timed("areas", [&] { areas<<<n / 256, 256>>>(widths, results, n); });
    return suite::finish();
}
