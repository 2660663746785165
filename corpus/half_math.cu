// 16-bit floating point through the vendor's headers: scalar and packed arithmetic, conversions, comparisons, atomics.
// oriole: arch=compute_80
// oriole: arch=compute_90
// oriole: arch=compute_100

#include <cuda_fp16.h>
#include <cuda_bf16.h>

extern "C" __global__ void half2_axpy(const __half2* x, __half2* y, __half a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __hfma2(__half2half2(a), x[i], y[i]);
}

extern "C" __global__ void half_functions(const __half* in, __half* out, int* flags) {
    int i = threadIdx.x;
    __half a = in[i], b = in[i + 64];
    out[0 * 64 + i] = a + b;
    out[1 * 64 + i] = a * b - a;
    out[2 * 64 + i] = a / b;
    out[3 * 64 + i] = hsqrt(a);
    out[4 * 64 + i] = hexp2(a);
    out[5 * 64 + i] = hlog(b);
    out[6 * 64 + i] = __hmax(a, b);
    out[7 * 64 + i] = __habs(__hneg(a));
    out[8 * 64 + i] = __float2half_rz(3.0f * __half2float(a));
    out[9 * 64 + i] = __int2half_rn(i * 7);
    out[10 * 64 + i] = hrint(a);
    flags[i] = (a > b) + 2 * __hisnan(a) + 4 * __half2int_rd(b) + __heq(a, b);
    atomicAdd((__half2*)out, __halves2half2(a, b));
}

extern "C" __global__ void bfloat_functions(const __nv_bfloat16* in, __nv_bfloat16* out, const float2* wide, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __nv_bfloat16 a = in[i], b = in[i + n];
    __nv_bfloat162 packed = __float22bfloat162_rn(wide[i]);
    packed = __hfma2(packed, __bfloat162bfloat162(a), __bfloat162bfloat162(b));
    out[2 * i] = __hadd(packed.x, a) * b;
    out[2 * i + 1] = __hmin(packed.y, __float2bfloat16(__bfloat162float(a) * 0.5f));
}

// Dot product of half vectors, accumulated in float, eight elements a load.
extern "C" __global__ void half_dot(const uint4* x, const uint4* y, float* out, int n) {
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        uint4 u = x[i], v = y[i];
        const __half2* p = (const __half2*)&u;
        const __half2* q = (const __half2*)&v;
        for (int j = 0; j < 4; ++j) {
            float2 a = __half22float2(p[j]), b = __half22float2(q[j]);
            sum += a.x * b.x + a.y * b.y;
        }
    }
    atomicAdd(out, sum);
}
