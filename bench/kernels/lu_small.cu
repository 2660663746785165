// kernel-test 1
// about: LU factors of matrices of 8 by 8 in registers of a thread
// kernel: lu_small
// grid: 128 1 1
// block: 64 1 1
// param a: f32[524288] = sized:218
// param out: f32[524288] = zero
// expect out: exact = ?*524288

// oriole: arch=compute_80
extern "C" __global__ void lu_small(const float *a, float *out)
{
    unsigned at = blockIdx.x * 64 + threadIdx.x, n = 8192;
    float m[8][8];
#pragma unroll
    for (int i = 0; i < 64; i++)
        m[i / 8][i % 8] = a[i * n + at] + (i % 9 == 0 ? 40.0f : 0.0f);
#pragma unroll
    for (int k = 0; k < 7; k++) {
        float inverse = 1.0f / m[k][k];
#pragma unroll
        for (int i = k + 1; i < 8; i++) {
            m[i][k] *= inverse;
#pragma unroll
            for (int j = k + 1; j < 8; j++)
                m[i][j] -= m[i][k] * m[k][j];
        }
    }
#pragma unroll
    for (int i = 0; i < 64; i++)
        out[i * n + at] = m[i / 8][i % 8];
}
