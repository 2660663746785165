// kernel-test 1
// about: softmax of rows in one pass: a running maximum and a running sum
// kernel: softmax_online
// grid: 1024 1 1
// block: 256 1 1
// param x: f32[2097152] = sized:207
// param y: f32[2097152] = zero
// expect y: exact = ?*2097152

// oriole: arch=compute_80
// A block for each row of 2048 elements.
extern "C" __global__ void softmax_online(const float4 *x, float4 *y)
{
    __shared__ float2 parts[8];
    const float4 *row = x + blockIdx.x * 512;
    float4 values[2] = {row[threadIdx.x], row[threadIdx.x + 256]};
    float most = -1e30f, sum = 0;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float4 v = values[i];
        float larger = fmaxf(most, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
        sum = sum * __expf(most - larger) + __expf(v.x - larger) + __expf(v.y - larger) + __expf(v.z - larger) + __expf(v.w - larger);
        most = larger;
    }
    for (int step = 16; step; step /= 2) {
        float other = __shfl_xor_sync(~0u, most, step), with = __shfl_xor_sync(~0u, sum, step), larger = fmaxf(most, other);
        sum = sum * __expf(most - larger) + with * __expf(other - larger);
        most = larger;
    }
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = make_float2(most, sum);
    __syncthreads();
    most = parts[0].x;
    sum = parts[0].y;
    for (int i = 1; i < 8; i++) {
        float larger = fmaxf(most, parts[i].x);
        sum = sum * __expf(most - larger) + parts[i].y * __expf(parts[i].x - larger);
        most = larger;
    }
    float inverse = 1.0f / sum;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float4 v = values[i];
        y[blockIdx.x * 512 + i * 256 + threadIdx.x] = make_float4(__expf(v.x - most) * inverse, __expf(v.y - most) * inverse,
            __expf(v.z - most) * inverse, __expf(v.w - most) * inverse);
    }
}
