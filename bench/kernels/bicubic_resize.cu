// kernel-test 1
// about: an image made larger by cubic interpolation
// kernel: bicubic_resize
// grid: 64 128 1
// block: 16 8 1
// param image: f32[262144] = sized:179
// param out: f32[1048576] = zero
// param scale: f32 = 3eff0000
// expect out: exact = ?*1048576

// oriole: arch=compute_80
__device__ float weight(float t)
{
    t = fabsf(t);
    return t < 1 ? (1.5f * t - 2.5f) * t * t + 1.0f : t < 2 ? ((-0.5f * t + 2.5f) * t - 4.0f) * t + 2.0f : 0.0f;
}

extern "C" __global__ void bicubic_resize(const float *image, float *out, float scale)
{
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    float u = (x + 0.5f) * scale - 0.5f, v = (y + 0.5f) * scale - 0.5f, across = floorf(u), down = floorf(v), sum = 0, wx[4];
    for (int j = 0; j < 4; j++)
        wx[j] = weight(u - across + 1 - j);
    for (int i = 0; i < 4; i++) {
        const float *row = image + min(max((int)down + i - 1, 0), 511) * 512;
        float line = 0;
        for (int j = 0; j < 4; j++)
            line += wx[j] * row[min(max((int)across + j - 1, 0), 511)];
        sum += weight(v - down + 1 - i) * line;
    }
    out[y * 1024 + x] = sum;
}
