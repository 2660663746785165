// kernel-test 1
// about: edges of an image of bytes, four pixels for each thread
// kernel: sobel_bytes
// grid: 16 512 1
// block: 32 4 1
// param image: u32[1048576] = random:174
// param edges: u32[1048576] = zero
// expect edges: exact = ?*1048576

// oriole: arch=compute_80
__device__ int pixel(const unsigned *image, int x, int y)
{
    x = min(max(x, 0), 2047);
    y = min(max(y, 0), 2047);
    return image[y * 512 + x / 4] >> x % 4 * 8 & 255;
}

extern "C" __global__ void sobel_bytes(const unsigned *image, unsigned *edges)
{
    int word = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y, v[3][6];
#pragma unroll
    for (int i = 0; i < 3; i++)
#pragma unroll
        for (int j = 0; j < 6; j++)
            v[i][j] = pixel(image, word * 4 + j - 1, y + i - 1);
    unsigned result = 0;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        int gx = v[0][j + 2] + 2 * v[1][j + 2] + v[2][j + 2] - v[0][j] - 2 * v[1][j] - v[2][j];
        int gy = v[2][j] + 2 * v[2][j + 1] + v[2][j + 2] - v[0][j] - 2 * v[0][j + 1] - v[0][j + 2];
        result |= (unsigned)min(255, (abs(gx) + abs(gy)) / 2) << j * 8;
    }
    edges[y * 512 + word] = result;
}
