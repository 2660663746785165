// kernel-test 1
// about: a matrix of bytes times a vector of bytes by products of four, with scales
// kernel: dot_int8
// grid: 1024 1 1
// block: 128 1 1
// param weights: u32[2097152] = random:164
// param x: u32[512] = random:165
// param scales: f32[4096] = sized:166
// param y: f32[4096] = zero
// expect y: exact = ?*4096

// oriole: arch=compute_80
// A warp for each row of 2048 bytes.
extern "C" __global__ void dot_int8(const uint4 *weights, const uint4 *x, const float *scales, float *y)
{
    unsigned row = (blockIdx.x * 128 + threadIdx.x) / 32, lane = threadIdx.x % 32;
    int sum = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint4 a = weights[row * 128 + i * 32 + lane], b = x[i * 32 + lane];
        sum = __dp4a((int)a.x, (int)b.x, sum);
        sum = __dp4a((int)a.y, (int)b.y, sum);
        sum = __dp4a((int)a.z, (int)b.z, sum);
        sum = __dp4a((int)a.w, (int)b.w, sum);
    }
    for (int step = 16; step; step /= 2)
        sum += __shfl_xor_sync(~0u, sum, step);
    if (lane == 0)
        y[row] = sum * scales[row];
}
