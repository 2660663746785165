// kernel-test 1
// about: frames of NV12 to packed RGB, two by two pixels for each thread
// kernel: yuv_to_rgb
// grid: 32 128 1
// block: 32 4 1
// param luma: u8[2097152] = random:180
// param chroma: u8[1048576] = random:181
// param out: u32[2097152] = zero
// expect out: exact = ?*2097152

// oriole: arch=compute_80
__device__ unsigned clamp(int v) { return min(max(v >> 10, 0), 255); }

extern "C" __global__ void yuv_to_rgb(const unsigned char *luma, const uchar2 *chroma, unsigned *out)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y;
    uchar2 uv = chroma[y * 1024 + x];
    int u = uv.x - 128, v = uv.y - 128;
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            int at = (2 * y + i) * 2048 + 2 * x + j, base = 1192 * max(luma[at] - 16, 0);
            out[at] = clamp(base + 1634 * v) | clamp(base - 401 * u - 833 * v) << 8 | clamp(base + 2066 * u) << 16 | 255u << 24;
        }
}
