// What all programs of the suite share: errors, deterministic input, device buffers, comparison with the CPU's results, kernel times.
//
// Standard output has only text that must be the same for every correct compiler: checksums of exact results, and floating-point results
// rounded to three digits. Standard error has lines for suite/run.py: `time NAME MICROSECONDS` and `bits NAME HASH`.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call) suite::check((call), #call, __FILE__, __LINE__)

namespace suite {

// Ends the program if a call of the CUDA runtime failed.
inline void check(cudaError_t status, const char *call, const char *file, int line)
{
    if (status == cudaSuccess)
        return;
    const char *name = strrchr(file, '/');
    printf("%s:%d: %s: %s\n", name ? name + 1 : file, line, call, cudaGetErrorString(status));
    exit(2);
}

// Waits for the GPU, and ends the program if a kernel failed.
inline void synchronize()
{
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}

// SplitMix64: the same numbers on every machine.
struct Random {
    uint64_t state;

    explicit Random(uint64_t seed) : state(seed) {}
    uint64_t wide()
    {
        uint64_t z = state += 0x9e3779b97f4a7c15ull;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }
    uint32_t bits() { return uint32_t(wide() >> 32); }
    uint32_t below(uint32_t limit) { return uint32_t((wide() >> 32) * limit >> 32); }
    // From 0 up to, but not including, 1.
    float uniform() { return float(wide() >> 40) * 0x1p-24f; }
    float between(float low, float high) { return low + (high - low) * uniform(); }
};

inline std::vector<float> floats(size_t count, uint64_t seed, float low = -1, float high = 1)
{
    Random random(seed);
    std::vector<float> values(count);
    for (float &value : values)
        value = random.between(low, high);
    return values;
}

inline std::vector<uint32_t> words(size_t count, uint64_t seed)
{
    Random random(seed);
    std::vector<uint32_t> values(count);
    for (uint32_t &value : values)
        value = random.bits();
    return values;
}

// An array in device memory.
template <class T> class Device {
    T *data_ = nullptr;
    size_t count_;

public:
    explicit Device(size_t count) : count_(count)
    {
        CHECK(cudaMalloc(&data_, count * sizeof(T)));
        CHECK(cudaMemset(data_, 0, count * sizeof(T)));
    }
    explicit Device(const std::vector<T> &values) : Device(values.size()) { set(values); }
    Device(const Device &) = delete;
    Device &operator=(const Device &) = delete;
    ~Device() { cudaFree(data_); }
    operator T *() { return data_; }
    T *data() { return data_; }
    size_t size() const { return count_; }
    void set(const std::vector<T> &values) { CHECK(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice)); }
    void clear() { CHECK(cudaMemset(data_, 0, count_ * sizeof(T))); }
    std::vector<T> host() const
    {
        synchronize();
        std::vector<T> values(count_);
        CHECK(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
        return values;
    }
};

inline bool &failed()
{
    static bool value = false;
    return value;
}

template <class T> uint64_t hash(const std::vector<T> &values)
{
    uint64_t sum = 0xcbf29ce484222325ull;
    const unsigned char *bytes = reinterpret_cast<const unsigned char *>(values.data());
    for (size_t i = 0; i < values.size() * sizeof(T); i++)
        sum = (sum ^ bytes[i]) * 0x100000001b3ull;
    return sum;
}

// Compares values that must be equal, and prints their checksum.
template <class T> void equal(const char *name, const std::vector<T> &got, const std::vector<T> &expected)
{
    size_t wrong = 0, first = 0;
    for (size_t i = 0; i < expected.size(); i++)
        if (i >= got.size() || memcmp(&got[i], &expected[i], sizeof(T)) != 0)
            if (wrong++ == 0)
                first = i;
    printf("%s: %zu elements, checksum %016llx\n", name, got.size(), (unsigned long long)hash(got));
    if (wrong || got.size() != expected.size()) {
        printf("%s: %zu wrong, the first is element %zu\n", name, wrong, first);
        failed() = true;
    }
}

template <class T> void equal(const char *name, T got, T expected) { equal(name, std::vector<T>{got}, std::vector<T>{expected}); }

// Compares floating-point values within `relative` of the expected value plus `absolute`, and prints some of them.
template <class T, class E>
void close(const char *name, const std::vector<T> &got, const std::vector<E> &expected, double relative = 1e-4, double absolute = 1e-5)
{
    size_t wrong = 0, first = 0;
    for (size_t i = 0; i < expected.size(); i++) {
        double a = double(got[i]), b = double(expected[i]);
        if (!(fabs(a - b) <= relative * fabs(b) + absolute))
            if (wrong++ == 0)
                first = i;
    }
    printf("%s: %zu elements, ", name, got.size());
    for (size_t at : {size_t(0), got.size() / 3, got.size() / 2, got.size() - 1})
        printf(" %.3g", double(got[at]));
    printf("\n");
    if (wrong) {
        printf("%s: %zu wrong, the first is element %zu: %.9g instead of %.9g\n", name, wrong, first, double(got[first]), double(expected[first]));
        failed() = true;
    }
    fprintf(stderr, "bits %s %016llx\n", name, (unsigned long long)hash(got));
}

// Measures launches after the results were taken: the least time of a launch over several runs of launches, in microseconds.
template <class Launch> void timed(const char *name, Launch launch)
{
    cudaEvent_t start, end;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    auto run = [&](int count) {
        float milliseconds;
        CHECK(cudaEventRecord(start));
        for (int i = 0; i < count; i++)
            launch();
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaGetLastError());
        CHECK(cudaEventElapsedTime(&milliseconds, start, end));
        return double(milliseconds) * 1000 / count;
    };
    run(1);
    int count = std::max(1, std::min(50, int(2000 / (run(2) + 1))));
    double best = run(count);
    for (int sample = 1; sample < 7; sample++)
        best = std::min(best, run(count));
    fprintf(stderr, "time %s %.3f\n", name, best);
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(end));
}

// The exit status of the program.
inline int finish()
{
    synchronize();
    printf("%s\n", failed() ? "WRONG" : "correct");
    return failed() ? 1 : 0;
}

} // namespace suite
