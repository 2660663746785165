// Matrix products of Hopper: the persistent, warp-specialized kernels of corpus/hopper_gemm.cu in bf16, with multicast in clusters of two
// blocks, and in fp8 with scales. Inputs are small integers and scales powers of two, so that all sums are exact.
#include "../timing.h"

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include "../../corpus/hopper_gemm.cu"

// Bytes of dynamic shared memory: the stages, and space to align them.
constexpr int SHARED_BYTES = STAGES * STAGE + 1024;

// A map of a matrix with `rows` rows of `columns` elements, and boxes of `box_rows` rows of 128 bytes.
template <class T> TensorMap map_of(const T *matrix, int rows, int columns, int box_rows)
{
    void *entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess) {
        printf("the driver makes no tensor maps\n");
        exit(2);
    }
    cuuint64_t sizes[2] = {cuuint64_t(columns), cuuint64_t(rows)}, strides[1] = {cuuint64_t(columns) * sizeof(T)};
    cuuint32_t box[2] = {cuuint32_t(128 / sizeof(T)), cuuint32_t(box_rows)}, steps[2] = {1, 1};
    TensorMap map;
    static_assert(sizeof map == sizeof(CUtensorMap), "a tensor map has 128 bytes");
    auto type = sizeof(T) == 2 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_UINT8;
    CUresult status = decltype(&cuTensorMapEncodeTiled)(entry)(
        reinterpret_cast<CUtensorMap *>(&map), type, 2, const_cast<T *>(matrix), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS) {
        printf("cuTensorMapEncodeTiled: %d\n", int(status));
        exit(2);
    }
    return map;
}

// Sizes of a product, and whether it is measured instead of checked.
struct Size {
    int m, n, k;
    bool is_timed;
};

// The factors of a product C = A * B^T: small integers.
struct Problem {
    int m, n, k;
    std::vector<int> a, b;

    Problem(int m, int n, int k, uint64_t seed) : m(m), n(n), k(k), a(size_t(m) * k), b(size_t(n) * k)
    {
        suite::Random random(seed);
        for (int &value : a)
            value = int(random.below(9)) - 4;
        for (int &value : b)
            value = int(random.below(9)) - 4;
    }
};

template <class T> std::vector<T> converted(const std::vector<int> &values)
{
    std::vector<T> out(values.size());
    for (size_t i = 0; i < values.size(); i++)
        out[i] = T(float(values[i]));
    return out;
}

int main()
{
    int processors = 0;
    CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    CHECK(cudaFuncSetAttribute(gemm_bf16_multicast, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
    CHECK(cudaFuncSetAttribute(gemm_fp8_promoted, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
    int blocks = processors / 2 * 2;
    for (const Size &size : {Size{512, 384, 576, false}, Size{256, 128, 64, false}, Size{4096, 4096, 2048, true}}) {
        int m = size.m, n = size.n, k = size.k;
        Problem problem(m, n, k, 17 + m);
        suite::Device<__nv_bfloat16> a(converted<__nv_bfloat16>(problem.a)), b(converted<__nv_bfloat16>(problem.b));
        suite::Device<float> c(size_t(m) * n);
        TensorMap map_a = map_of(a.data(), m, k, 128), map_b = map_of(b.data(), n, k, 64);
        auto run = [&] { gemm_bf16_multicast<<<blocks, 384, SHARED_BYTES>>>(map_a, map_b, c.data(), m, n, k); };
        run();
        suite::synchronize();
        if (size.is_timed) {
            suite::timed("bf16", run);
            continue;
        }
        std::vector<float> expected(size_t(m) * n);
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                int sum = 0;
                for (int l = 0; l < k; l++)
                    sum += problem.a[size_t(i) * k + l] * problem.b[size_t(j) * k + l];
                expected[size_t(i) * n + j] = float(sum);
            }
        suite::equal("bf16", c.host(), expected);
    }
    for (const Size &size : {Size{384, 384, 640, false}, Size{128, 128, 128, false}, Size{4096, 4096, 2048, true}}) {
        int m = size.m, n = size.n, k = size.k;
        Problem problem(m, n, k, 19 + m);
        int steps = k / 128;
        std::vector<float> scale_a(size_t(m) * steps), scale_b(size_t(n / 128) * steps);
        suite::Random random(5);
        for (float &scale : scale_a)
            scale = ldexpf(1, int(random.below(5)) - 2);
        for (float &scale : scale_b)
            scale = ldexpf(1, int(random.below(5)) - 2);
        suite::Device<__nv_fp8_e4m3> a(converted<__nv_fp8_e4m3>(problem.a)), b(converted<__nv_fp8_e4m3>(problem.b));
        suite::Device<float> scales_a(scale_a), scales_b(scale_b), c(size_t(m) * n);
        TensorMap map_a = map_of(a.data(), m, k, 128), map_b = map_of(b.data(), n, k, 128);
        auto run = [&] { gemm_fp8_promoted<<<processors, 384, SHARED_BYTES>>>(map_a, map_b, scales_a.data(), scales_b.data(), c.data(), m, n, k); };
        run();
        suite::synchronize();
        if (size.is_timed) {
            suite::timed("fp8", run);
            continue;
        }
        std::vector<float> expected(size_t(m) * n);
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                float sum = 0;
                for (int s = 0; s < steps; s++) {
                    int part = 0;
                    for (int l = s * 128; l < (s + 1) * 128; l++)
                        part += problem.a[size_t(i) * k + l] * problem.b[size_t(j) * k + l];
                    sum += float(part) * (scale_a[size_t(i) * steps + s] * scale_b[size_t(j / 128) * steps + s]);
                }
                expected[size_t(i) * n + j] = sum;
            }
        suite::equal("fp8", c.host(), expected);
    }
    return suite::finish();
}
