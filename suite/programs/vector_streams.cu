// Four streams with copies and kernels of their own from page-locked memory, and events between them.
#include "../timing.h"

__global__ void polynomial(const float *x, float *y, int n, float a, float b, float c)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float v = x[i];
        y[i] = (a * v + b) * v + c;
    }
}

__global__ void accumulate(const float4 *x, float4 *sum, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float4 v = x[i], s = sum[i];
        sum[i] = make_float4(s.x + v.x, s.y + v.y, s.z + v.z, s.w + v.w);
    }
}

int main()
{
    const int streams = 4, part = 1 << 18, n = streams * part;
    float *input, *output;
    CHECK(cudaMallocHost(&input, n * sizeof(float)));
    CHECK(cudaMallocHost(&output, part * sizeof(float)));
    auto values = suite::floats(n, 21);
    std::copy(values.begin(), values.end(), input);
    std::vector<float> expected(part), each(n);
    for (int s = 0; s < streams; s++)
        for (int i = 0; i < part; i++) {
            float v = input[s * part + i];
            each[s * part + i] = ((s + 1) * v + 0.5f) * v - 1.0f;
            expected[i] += each[s * part + i];
        }

    suite::Device<float> x(n), y(n), sum(part);
    cudaStream_t stream[streams];
    cudaEvent_t done[streams];
    for (int s = 0; s < streams; s++) {
        CHECK(cudaStreamCreateWithFlags(&stream[s], cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&done[s], cudaEventDisableTiming));
    }
    suite::synchronize();
    for (int s = 0; s < streams; s++) {
        CHECK(cudaMemcpyAsync(x + s * part, input + s * part, part * sizeof(float), cudaMemcpyHostToDevice, stream[s]));
        polynomial<<<256, 256, 0, stream[s]>>>(x + s * part, y + s * part, part, s + 1, 0.5f, -1.0f);
        CHECK(cudaEventRecord(done[s], stream[s]));
    }
    for (int s = 0; s < streams; s++) {
        CHECK(cudaStreamWaitEvent(stream[0], done[s]));
        accumulate<<<part / 4 / 256, 256, 0, stream[0]>>>((const float4 *)(y + s * part), (float4 *)sum.data(), part / 4);
    }
    CHECK(cudaMemcpyAsync(output, sum, part * sizeof(float), cudaMemcpyDeviceToHost, stream[0]));
    CHECK(cudaStreamSynchronize(stream[0]));
    suite::close("sums", std::vector<float>(output, output + part), expected, 1e-5, 1e-5);
    suite::close("polynomials", y.host(), each, 1e-5, 1e-6);
    suite::timed("polynomial", [&] { polynomial<<<1024, 256>>>(x, y, n, 2, 0.5f, -1.0f); });
    suite::timed("accumulate", [&] { accumulate<<<part / 4 / 256, 256>>>((const float4 *)y.data(), (float4 *)sum.data(), part / 4); });
    for (int s = 0; s < streams; s++) {
        CHECK(cudaStreamDestroy(stream[s]));
        CHECK(cudaEventDestroy(done[s]));
    }
    CHECK(cudaFreeHost(input));
    CHECK(cudaFreeHost(output));
    return suite::finish();
}
