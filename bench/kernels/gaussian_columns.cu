// kernel-test 1
// about: the vertical half of a Gaussian filter with a tile in shared memory and weights in constant memory
// kernel: gaussian_columns
// grid: 32 32 1
// block: 32 8 1
// param image: f32[1048576] = sized:177
// param out: f32[1048576] = zero
// expect out: exact = ?*1048576

// oriole: arch=compute_80
__constant__ float weights[17] = {0.0048f, 0.0093f, 0.0163f, 0.0262f, 0.0385f, 0.0520f, 0.0645f, 0.0736f, 0.0769f, 0.0736f, 0.0645f, 0.0520f,
    0.0385f, 0.0262f, 0.0163f, 0.0093f, 0.0048f};

extern "C" __global__ void gaussian_columns(const float *image, float *out)
{
    __shared__ float tile[48][32];
    int x = blockIdx.x * 32 + threadIdx.x, top = blockIdx.y * 32 - 8;
#pragma unroll
    for (int i = 0; i < 6; i++) {
        int row = i * 8 + threadIdx.y;
        tile[row][threadIdx.x] = image[min(max(top + row, 0), 1023) * 1024 + x];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int row = i * 8 + threadIdx.y;
        float sum = 0;
#pragma unroll
        for (int k = 0; k < 17; k++)
            sum += weights[k] * tile[row + k][threadIdx.x];
        out[(top + 8 + row) * 1024 + x] = sum;
    }
}
