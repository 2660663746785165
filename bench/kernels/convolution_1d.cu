// kernel-test 1
// about: filter of 33 in registers, eight outputs for each thread
// kernel: convolution_1d
// grid: 512 1 1
// block: 256 1 1
// param x: f32[1048832] = sized:19
// param filter: f32[33] = sized:20
// param y: f32[1048576] = zero
// expect y: exact = ?*1048576

// oriole: arch=compute_80
extern "C" __global__ void convolution_1d(const float *__restrict__ x, const float *__restrict__ filter, float *y)
{
    unsigned start = (blockIdx.x * 256 + threadIdx.x) * 8;
    float window[40], sums[8] = {};
#pragma unroll
    for (int i = 0; i < 10; i++) {
        float4 v = *reinterpret_cast<const float4 *>(x + start + i * 4);
        window[i * 4] = v.x; window[i * 4 + 1] = v.y; window[i * 4 + 2] = v.z; window[i * 4 + 3] = v.w;
    }
#pragma unroll
    for (int k = 0; k < 33; k++) {
        float c = __ldg(filter + k);
#pragma unroll
        for (int i = 0; i < 8; i++)
            sums[i] = fmaf(window[(k + i) % 40], c, sums[i]);
    }
    float4 *out = reinterpret_cast<float4 *>(y + start);
    out[0] = make_float4(sums[0], sums[1], sums[2], sums[3]);
    out[1] = make_float4(sums[4], sums[5], sums[6], sums[7]);
}
