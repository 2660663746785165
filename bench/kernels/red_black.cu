// kernel-test 1
// about: a half sweep of red-black Gauss-Seidel with relaxation
// kernel: red_black
// grid: 32 256 1
// block: 32 8 1
// param x: f32[4194304] = sized:111
// param right: f32[4194304] = sized:112
// param out: f32[4194304] = zero
// param weight: f32 = 3fc00000
// expect out: exact = ?*4194304

// oriole: arch=compute_80
extern "C" __global__ void red_black(const float *x, const float *right, float *out, float weight)
{
    const int n = 2048;
    int i = blockIdx.y * 8 + threadIdx.y, j = 2 * (blockIdx.x * 32 + threadIdx.x) + (i & 1);
    if (i == 0 || j == 0 || i == n - 1 || j == n - 1)
        return;
    int at = i * n + j;
    float old = x[at], fresh = 0.25f * (x[at - 1] + x[at + 1] + x[at - n] + x[at + n] - right[at]);
    out[at] = old + weight * (fresh - old);
}
