// kernel-test 1
// about: three by three median of bytes
// kernel: byte_filter
// grid: 128 128 1
// block: 32 8 1
// param x: u8[4210704] = random:46
// param y: u8[4194304] = zero
// expect y: exact = ?*4194304

// oriole: arch=compute_80
__device__ void order(int &a, int &b) { int low = min(a, b); b = max(a, b); a = low; }

extern "C" __global__ void byte_filter(const unsigned char *x, unsigned char *y)
{
    const int n = 2048, wide = 2052;
    int column = blockIdx.x * 16 + threadIdx.x % 16, row = blockIdx.y * 16 + threadIdx.y * 2 + threadIdx.x / 16;
    int v[9];
    for (int i = 0; i < 9; i++)
        v[i] = x[(row + i / 3) * wide + column + i % 3];
    order(v[1], v[2]); order(v[4], v[5]); order(v[7], v[8]); order(v[0], v[1]); order(v[3], v[4]); order(v[6], v[7]);
    order(v[1], v[2]); order(v[4], v[5]); order(v[7], v[8]); order(v[0], v[3]); order(v[5], v[8]); order(v[4], v[7]);
    order(v[3], v[6]); order(v[1], v[4]); order(v[2], v[5]); order(v[4], v[7]); order(v[4], v[2]); order(v[6], v[4]);
    order(v[4], v[2]);
    y[row * n + column] = v[4];
}
