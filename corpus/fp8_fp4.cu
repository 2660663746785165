// 8-, 6- and 4-bit floating point conversions: emulated for old targets, cvt instructions from sm_89 and sm_100a on.
// oriole: arch=compute_80
// oriole: arch=compute_90
// oriole: arch=compute_100a

#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_fp4.h>

extern "C" __global__ void fp8_round_trip(const float4* in, unsigned* e4m3, unsigned* e5m2, __half2* back) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __nv_fp8x4_e4m3 a(in[i]);
    __nv_fp8x4_e5m2 b(in[i]);
    e4m3[i] = a.__x;
    e5m2[i] = b.__x;
    float4 wide = static_cast<float4>(a);
    back[i] = __floats2half2_rn(wide.x * wide.y, wide.z * wide.w);
}

extern "C" __global__ void fp8_scale(const __nv_fp8_storage_t* in, __nv_fp8_storage_t* out, float scale, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half_raw h = __nv_cvt_fp8_to_halfraw(in[i], __NV_E4M3);
    float f = __half2float(__half(h)) * scale;
    out[i] = __nv_cvt_float_to_fp8(f, __NV_SATFINITE, __NV_E5M2);
}

extern "C" __global__ void fp4_pack(const float2* in, unsigned char* out, __half2* back) {
    int i = threadIdx.x;
    __nv_fp4x2_storage_t packed = __nv_cvt_float2_to_fp4x2(in[i], __NV_E2M1, cudaRoundNearest);
    out[i] = packed;
    back[i] = __half2(__nv_cvt_fp4x2_to_halfraw2(packed, __NV_E2M1));
}
