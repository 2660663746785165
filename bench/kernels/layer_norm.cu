// kernel-test 1
// about: normalizes rows of 1024 by mean and variance
// kernel: layer_norm
// grid: 2048 1 1
// block: 128 1 1
// param x: f32[2097152] = sized:4
// param weight: f32[1024] = sized:5
// param bias: f32[1024] = sized:6
// param y: f32[2097152] = zero
// expect y: exact = ?*2097152

// oriole: arch=compute_80
extern "C" __global__ void layer_norm(const float4 *x, const float4 *weight, const float4 *bias, float4 *y)
{
    __shared__ float2 parts[4];
    const float4 *row = x + blockIdx.x * 256;
    float4 values[2] = {row[threadIdx.x], row[threadIdx.x + 128]};
    float sum = 0, squares = 0;
    for (int i = 0; i < 2; i++) {
        float4 v = values[i];
        sum += v.x + v.y + v.z + v.w;
        squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    for (int step = 16; step; step /= 2) {
        sum += __shfl_xor_sync(~0u, sum, step);
        squares += __shfl_xor_sync(~0u, squares, step);
    }
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = make_float2(sum, squares);
    __syncthreads();
    sum = squares = 0;
    for (int i = 0; i < 4; i++) {
        sum += parts[i].x;
        squares += parts[i].y;
    }
    float mean = sum / 1024, scale = rsqrtf(squares / 1024 - mean * mean + 1e-5f);
    for (int i = 0; i < 2; i++) {
        unsigned at = threadIdx.x + i * 128;
        float4 v = values[i], w = weight[at], b = bias[at];
        v.x = (v.x - mean) * scale * w.x + b.x;
        v.y = (v.y - mean) * scale * w.y + b.y;
        v.z = (v.z - mean) * scale * w.z + b.z;
        v.w = (v.w - mean) * scale * w.w + b.w;
        y[blockIdx.x * 256 + at] = v;
    }
}
