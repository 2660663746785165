// kernel-test 1
// about: smooths an image but not its edges: weights by distance and by difference
// kernel: bilateral_filter
// grid: 32 64 1
// block: 16 8 1
// param image: f32[262144] = sized:175
// param out: f32[262144] = zero
// expect out: exact = ?*262144

// oriole: arch=compute_80
extern "C" __global__ void bilateral_filter(const float *image, float *out)
{
    __shared__ float tile[14][22];
    int left = blockIdx.x * 16 - 3, top = blockIdx.y * 8 - 3, x = threadIdx.x, y = threadIdx.y;
    for (int i = y * 16 + x; i < 14 * 22; i += 128)
        tile[i / 22][i % 22] = image[min(max(top + i / 22, 0), 511) * 512 + min(max(left + i % 22, 0), 511)];
    __syncthreads();
    float center = tile[y + 3][x + 3], sum = 0, total = 0;
    for (int i = -3; i <= 3; i++)
#pragma unroll
        for (int j = -3; j <= 3; j++) {
            float value = tile[y + 3 + i][x + 3 + j], difference = value - center;
            float weight = __expf(-(i * i + j * j) * 0.08f - difference * difference * 0.02f);
            sum += weight * value;
            total += weight;
        }
    out[(top + 3 + y) * 512 + left + 3 + x] = sum / total;
}
