// kernel-test 1
// about: a half step of Maxwell's equations on a staggered grid, with absorbing edges
// kernel: maxwell_2d
// grid: 64 256 1
// block: 32 8 1
// param ez: f32[4194304] = sized:107
// param hx: f32[4194304] = sized:108
// param hy: f32[4194304] = sized:109
// param coefficients: f32[8192] = sized:110
// param out: f32[4194304] = zero
// expect out: exact = ?*4194304

// oriole: arch=compute_80
extern "C" __global__ void maxwell_2d(const float *ez, const float *hx, const float *hy, const float2 *coefficients, float *out)
{
    const int n = 2048;
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, at = y * n + x;
    if (x == 0 || y == 0) {
        out[at] = 0;
        return;
    }
    float2 row = coefficients[y], column = coefficients[n + x];
    float curl = (hy[at] - hy[at - 1]) - (hx[at] - hx[at - n]);
    float loss = 1.0f - 0.01f * (row.x * row.x + column.x * column.x);
    out[at] = loss * ez[at] + 0.5f * (row.y + column.y) * curl;
}
