// Fused attention in one kernel (online softmax), int8 quantisation with packed dot products, rotary embedding.
// oriole: arch=compute_80
// oriole: arch=compute_100 options=--use_fast_math tag=fast_math

#include <cuda_fp16.h>

extern "C" __global__ __launch_bounds__(64) void attention_online(const half* __restrict__ q, const half* __restrict__ k,
                                                                  const half* __restrict__ v, half* __restrict__ o, int length, float scale) {
    __shared__ half2 sk[64][32], sv[64][32];
    int row = blockIdx.x * 64 + threadIdx.x;
    half2 mine[32];
    float acc[64] = {}, top = -1e30f, total = 0;
    for (int i = 0; i < 32; ++i) mine[i] = ((const half2*)q)[row * 32 + i];
    for (int base = 0; base < length; base += 64) {
        __syncthreads();
        for (int i = 0; i < 32; ++i) {
            sk[threadIdx.x][i] = ((const half2*)k)[(base + threadIdx.x) * 32 + i];
            sv[threadIdx.x][i] = ((const half2*)v)[(base + threadIdx.x) * 32 + i];
        }
        __syncthreads();
        for (int j = 0; j < 64 && base + j <= row; ++j) {
            float s = 0;
            for (int i = 0; i < 32; ++i) {
                float2 a = __half22float2(mine[i]), b = __half22float2(sk[j][i]);
                s += a.x * b.x + a.y * b.y;
            }
            s *= scale;
            float now = fmaxf(top, s), keep = expf(top - now), weight = expf(s - now);
            total = total * keep + weight;
            for (int i = 0; i < 32; ++i) {
                float2 b = __half22float2(sv[j][i]);
                acc[2 * i] = acc[2 * i] * keep + weight * b.x;
                acc[2 * i + 1] = acc[2 * i + 1] * keep + weight * b.y;
            }
            top = now;
        }
    }
    for (int i = 0; i < 32; ++i) ((half2*)o)[row * 32 + i] = __floats2half2_rn(acc[2 * i] / total, acc[2 * i + 1] / total);
}

extern "C" __global__ void quantise_rows(const float* in, signed char* out, float* scales, int columns) {
    float top = 0;
    for (int i = threadIdx.x; i < columns; i += 32) top = fmaxf(top, fabsf(in[blockIdx.x * columns + i]));
    for (int o = 16; o; o /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
    float scale = 127.0f / top;
    for (int i = threadIdx.x; i < columns; i += 32) {
        int r = __float2int_rn(in[blockIdx.x * columns + i] * scale);
        out[blockIdx.x * columns + i] = (signed char)max(-128, min(127, r));
    }
    if (threadIdx.x == 0) scales[blockIdx.x] = top / 127.0f;
}

extern "C" __global__ void dot_int8(const int4* a, const int4* b, const float* sa, const float* sb, float* c, int k16) {
    int sum = 0;
    for (int i = threadIdx.x; i < k16; i += 32) {
        int4 x = a[blockIdx.y * k16 + i], y = b[blockIdx.x * k16 + i];
        sum = __dp4a(x.x, y.x, sum); sum = __dp4a(x.y, y.y, sum); sum = __dp4a(x.z, y.z, sum); sum = __dp4a(x.w, y.w, sum);
    }
    sum = __reduce_add_sync(~0u, sum);
    if (threadIdx.x == 0) c[blockIdx.y * gridDim.x + blockIdx.x] = sum * sa[blockIdx.y] * sb[blockIdx.x];
}

extern "C" __global__ void rotary(half2* x, int pairs, float base) {
    int position = blockIdx.x, i = threadIdx.x;
    if (i >= pairs) return;
    float angle = position * powf(base, -(float)i / pairs), s, c;
    sincosf(angle, &s, &c);
    float2 v = __half22float2(x[position * pairs + i]);
    x[position * pairs + i] = __floats2half2_rn(v.x * c - v.y * s, v.x * s + v.y * c);
}
