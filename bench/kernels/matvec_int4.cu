// kernel-test 1
// about: a matrix of four-bit weights with scales for groups of 32, times a vector of floats
// kernel: matvec_int4
// grid: 1024 1 1
// block: 128 1 1
// param weights: u32[1048576] = random:167
// param scales: f32[262144] = sized:168
// param x: f32[2048] = sized:169
// param y: f32[4096] = zero
// expect y: exact = ?*4096

// oriole: arch=compute_80
// A warp for each row of 2048 weights; a word has eight of them.
extern "C" __global__ void matvec_int4(const unsigned *weights, const float *scales, const float4 *x, float *y)
{
    unsigned row = (blockIdx.x * 128 + threadIdx.x) / 32, lane = threadIdx.x % 32;
    float sum = 0;
#pragma unroll 2
    for (int i = 0; i < 8; i++) {
        unsigned at = i * 32 + lane, word = weights[row * 256 + at];
        float4 a = x[at * 2], b = x[at * 2 + 1];
        float part = a.x * ((int)(word & 15) - 8) + a.y * ((int)(word >> 4 & 15) - 8) + a.z * ((int)(word >> 8 & 15) - 8)
            + a.w * ((int)(word >> 12 & 15) - 8) + b.x * ((int)(word >> 16 & 15) - 8) + b.y * ((int)(word >> 20 & 15) - 8)
            + b.z * ((int)(word >> 24 & 15) - 8) + b.w * ((int)(word >> 28) - 8);
        sum += part * scales[row * 64 + at / 4];
    }
    for (int step = 16; step; step /= 2)
        sum += __shfl_xor_sync(~0u, sum, step);
    if (lane == 0)
        y[row] = sum;
}
