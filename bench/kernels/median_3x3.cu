// kernel-test 1
// about: the median of nine bytes by a network of comparisons
// kernel: median_3x3
// grid: 64 128 1
// block: 32 8 1
// param image: u8[2097152] = random:176
// param out: u8[2097152] = zero
// expect out: exact = ?*2097152

// oriole: arch=compute_80
__device__ void order(unsigned &a, unsigned &b)
{
    unsigned low = min(a, b);
    b = max(a, b);
    a = low;
}

extern "C" __global__ void median_3x3(const unsigned char *image, unsigned char *out)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    unsigned v[9];
#pragma unroll
    for (int i = 0; i < 9; i++)
        v[i] = image[min(max(y + i / 3 - 1, 0), 1023) * 2048 + min(max(x + i % 3 - 1, 0), 2047)];
    order(v[1], v[2]); order(v[4], v[5]); order(v[7], v[8]); order(v[0], v[1]); order(v[3], v[4]); order(v[6], v[7]);
    order(v[1], v[2]); order(v[4], v[5]); order(v[7], v[8]); order(v[0], v[3]); order(v[5], v[8]); order(v[4], v[7]);
    order(v[3], v[6]); order(v[1], v[4]); order(v[2], v[5]); order(v[4], v[7]); order(v[4], v[2]); order(v[6], v[4]);
    order(v[4], v[2]);
    out[y * 2048 + x] = v[4];
}
