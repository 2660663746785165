// printf and assertions on the device: formats of all kinds, from one thread at a time so that the order is fixed.
#include "../timing.h"

#include <cassert>

__device__ int collatz(long long n)
{
    int steps = 0;
    for (; n != 1; steps++)
        n = n % 2 ? 3 * n + 1 : n / 2;
    return steps;
}

__global__ void report(const double *values, int n)
{
    if (threadIdx.x != 0)
        return;
    for (int i = 0; i < n; i++)
        printf("value %d: %.4f %g %e\n", i, values[i], values[i] * 2, values[i] / 3);
    printf("%s %c %u %x %lld %llx %5d|%-5d|%05d %%\n", "text", 'c', 4000000000u, 0xdeadbeefu, -1234567890123456789ll, 0xfeedfacecafebeefull, 42, 42, 42);
    printf("no arguments\n");
    int length = printf("%d\n", 7);
    assert(length == 1);
}

__global__ void steps(int *out, int n)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    assert(n > 0);
    if (at < n)
        out[at] = collatz(at + 1);
    // Never taken: the call must not disturb the rest.
    if (at < n && out[at] > 1000)
        printf("%d takes %d steps\n", at + 1, out[at]);
}

int main()
{
    setvbuf(stdout, nullptr, _IONBF, 0);
    const int n = 1 << 17;
    std::vector<double> values = {0, 1, -1.5, 3.14159265358979, 1e10, -2.5e-7};
    suite::Device<double> in(values);
    suite::Device<int> out(n);
    report<<<1, 32>>>(in, int(values.size()));
    suite::synchronize();
    auto launch = [&] { steps<<<n / 128, 128>>>(out, n); };
    launch();
    std::vector<int> expected(n);
    for (int i = 0; i < n; i++) {
        int count = 0;
        for (long long v = i + 1; v != 1; count++)
            v = v % 2 ? 3 * v + 1 : v / 2;
        expected[i] = count;
    }
    suite::equal("steps", out.host(), expected);
    suite::timed("steps", launch);
    return suite::finish();
}
