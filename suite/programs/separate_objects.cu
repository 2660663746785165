// Relocatable device code: functions and variables that the device linker resolves, structures by value, and device variables that the host sets.
// suite: options="-rdc=true"
#include "../timing.h"

__device__ uint32_t counter;
__device__ uint32_t scale = 3;
__constant__ uint32_t offsets[4] = {5, 7, 11, 13};

extern __device__ uint32_t scramble(uint32_t v, int rounds);
__device__ __noinline__ uint32_t combine(uint32_t a, uint32_t b);

struct State {
    uint32_t a[6];
};

// A structure that travels by value.
__device__ __noinline__ State advance(State s, uint32_t by)
{
    State next;
    for (int i = 0; i < 6; i++)
        next.a[i] = s.a[(i + 1) % 6] * scale + by + offsets[i & 3];
    return next;
}

__global__ void work(const uint32_t *x, uint32_t *y, int n)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n)
        return;
    State s;
    for (int i = 0; i < 6; i++)
        s.a[i] = x[at] + i;
    for (int i = 0; i < 8; i++)
        s = advance(s, scramble(x[at], i & 3));
    uint32_t sum = 0;
    for (int i = 0; i < 6; i++)
        sum = combine(sum, s.a[i]);
    y[at] = sum;
    if (sum & 1)
        atomicAdd(&counter, 1u);
}

__device__ uint32_t scramble(uint32_t v, int rounds)
{
    for (int i = 0; i <= rounds; i++)
        v = (v ^ v >> 15) * 0x2c1b3c6du + offsets[i & 3];
    return v;
}

__device__ uint32_t combine(uint32_t a, uint32_t b) { return (a << 5 | a >> 27) ^ b; }

int main()
{
    const int n = 1 << 15;
    auto x = suite::words(n, 421);
    std::vector<uint32_t> expected(n);
    const uint32_t offset[4] = {5, 7, 11, 13};
    uint32_t odd = 0;
    for (int at = 0; at < n; at++) {
        uint32_t s[6], t[6], sum = 0;
        for (int i = 0; i < 6; i++)
            s[i] = x[at] + i;
        for (int k = 0; k < 8; k++) {
            uint32_t v = x[at];
            for (int i = 0; i <= (k & 3); i++)
                v = (v ^ v >> 15) * 0x2c1b3c6du + offset[i & 3];
            for (int i = 0; i < 6; i++)
                t[i] = s[(i + 1) % 6] * 4 + v + offset[i & 3];
            memcpy(s, t, sizeof s);
        }
        for (int i = 0; i < 6; i++)
            sum = (sum << 5 | sum >> 27) ^ s[i];
        expected[at] = sum;
        odd += sum & 1;
    }
    // The host changes a variable of the device.
    uint32_t four = 4, zero = 0, got;
    CHECK(cudaMemcpyToSymbol(scale, &four, 4));
    CHECK(cudaMemcpyToSymbol(counter, &zero, 4));
    suite::Device<uint32_t> in(x), out(n);
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, work));
    auto launch = [&] { work<<<n / 128, 128>>>(in, out, n); };
    launch();
    suite::equal("results", out.host(), expected);
    CHECK(cudaMemcpyFromSymbol(&got, counter, 4));
    suite::equal("odd", got, odd);
    suite::timed("work", launch);
    return suite::finish();
}
