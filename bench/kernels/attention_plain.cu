// kernel-test 1
// about: attention of 512 positions of width 64, without tensor cores
// kernel: attention_plain
// grid: 64 8 1
// block: 64 1 1
// param q: f32[262144] = sized:21
// param k: f32[262144] = sized:22
// param v: f32[262144] = sized:23
// param out: f32[262144] = zero
// expect out: exact = ?*262144

// oriole: arch=compute_80
extern "C" __global__ void __launch_bounds__(64) attention_plain(const float *q, const float *k, const float *v, float *out)
{
    const int length = 512, width = 64;
    __shared__ float keys[16][width], values[16][width];
    const float *head_k = k + blockIdx.y * length * width, *head_v = v + blockIdx.y * length * width;
    unsigned query = blockIdx.y * length + blockIdx.x * 8 + threadIdx.x / 8, part = threadIdx.x % 8;
    float own[8], sums[8] = {}, most = -3.4e38f, total = 0;
    for (int i = 0; i < 8; i++)
        own[i] = q[query * width + part * 8 + i] * 0.01f;
    for (int start = 0; start < length; start += 16) {
        for (int i = threadIdx.x; i < 16 * width; i += 64) {
            keys[i / width][i % width] = head_k[start * width + i];
            values[i / width][i % width] = head_v[start * width + i];
        }
        __syncthreads();
        for (int i = 0; i < 16; i++) {
            float score = 0;
            for (int j = 0; j < 8; j++)
                score = fmaf(own[j], keys[i][part * 8 + j], score);
            for (int step = 4; step; step /= 2)
                score += __shfl_xor_sync(~0u, score, step);
            float higher = fmaxf(most, score), shrink = __expf(most - higher), weight = __expf(score - higher);
            total = total * shrink + weight;
            for (int j = 0; j < 8; j++)
                sums[j] = sums[j] * shrink + weight * values[i][part * 8 + j];
            most = higher;
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; i++)
        out[query * width + part * 8 + i] = sums[i] / total;
}
