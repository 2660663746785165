// Single precision: library functions, fast intrinsics, roundings, conversions, subnormals flushed in one flavour.
// oriole: arch=compute_80
// oriole: arch=compute_90 options="-ftz=true -prec-div=false -prec-sqrt=false -fmad=false" tag=ftz

extern "C" __global__ void library_float(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i], s, c;
    sincosf(x, &s, &c);
    out[i] = s + c * tanf(x) + logf(x) + powf(x, 1.3f) + sqrtf(x) / (x + 1.f) + exp2f(x) + log1pf(x) + erff(x);
    out[i] += atanf(x) + cbrtf(x) + fmodf(x, 3.f) + ldexpf(x, 3) + roundf(x) + floorf(x) + rcbrtf(x) + lgammaf(x);
}

extern "C" __global__ void intrinsic_float(const float* in, float* out, int* ints) {
    int i = threadIdx.x;
    float a = in[i], b = in[i + 32];
    out[0] = __sinf(a) + __cosf(b) + __expf(a) + __logf(b) + __powf(a, b) + __tanf(a) + __fdividef(a, b);
    out[1] = __fadd_rz(a, b) + __fmul_ru(a, b) + __fmaf_rd(a, b, a) + __frcp_rz(a) + __fsqrt_ru(b) + __fdiv_rd(a, b);
    out[2] = __saturatef(a) + fminf(a, b) + fmaxf(a, b) + fabsf(a) + rsqrtf(a) + __frsqrt_rn(b) + fdimf(a, b);
    ints[0] = __float2int_rn(a) + __float2int_rz(b) + __float2uint_ru(a) + (int)__float2ll_rd(b) + __float_as_int(a);
    out[3] = __int2float_rz(i) + __uint2float_rd(i) + __ll2float_ru((long long)i << 33) + __int_as_float(ints[1]);
    ints[2] = isnan(a) + 2 * isinf(b) + 4 * (int)signbit(a) + 8 * (a < b) + 16 * (a != b) + 32 * isfinite(a);
}
