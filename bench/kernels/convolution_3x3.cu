// kernel-test 1
// about: a direct convolution of 32 channels to 32 channels with filters of 3 by 3
// kernel: convolution_3x3
// grid: 4 4 8
// block: 16 16 1
// param x: f32[131072] = sized:213
// param weights: f32[9216] = sized:214
// param y: f32[131072] = zero
// expect y: exact = ?*131072

// oriole: arch=compute_80
// A block computes four channels of a tile of 16 by 16; the image is 64 by 64.
extern "C" __global__ void convolution_3x3(const float *x, const float *weights, float *y)
{
    __shared__ float tile[18][18], filters[4][9];
    int tx = threadIdx.x, ty = threadIdx.y, thread = ty * 16 + tx;
    int left = blockIdx.x * 16 - 1, top = (blockIdx.y) * 16 - 1, first = blockIdx.z * 4;
    float sums[4] = {};
    for (int channel = 0; channel < 32; channel++) {
        for (int i = thread; i < 324; i += 256) {
            int u = left + i % 18, v = top + i / 18;
            tile[i / 18][i % 18] = u >= 0 && v >= 0 && u < 64 && v < 64 ? x[(channel * 64 + v) * 64 + u] : 0.0f;
        }
        if (thread < 36)
            filters[thread / 9][thread % 9] = weights[((first + thread / 9) * 32 + channel) * 9 + thread % 9];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 9; i++) {
            float v = tile[ty + i / 3][tx + i % 3];
#pragma unroll
            for (int k = 0; k < 4; k++)
                sums[k] += v * filters[k][i];
        }
        __syncthreads();
    }
    for (int k = 0; k < 4; k++)
        y[((first + k) * 64 + top + 1 + ty) * 64 + left + 1 + tx] = sums[k];
}
