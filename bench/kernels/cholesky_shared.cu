// kernel-test 1
// about: Cholesky factors of matrices of 32 by 32 in double, a warp for each
// kernel: cholesky_shared
// grid: 264 1 1
// block: 32 1 1
// param a: f64[270336] = sized:219
// param out: f64[270336] = zero
// expect out: exact = ?*270336

// oriole: arch=compute_80
extern "C" __global__ void cholesky_shared(const double *a, double *out)
{
    __shared__ double m[32][33];
    unsigned lane = threadIdx.x, base = blockIdx.x * 1024;
    for (int i = 0; i < 32; i++)
        m[i][lane] = 0.01 * (a[base + i * 32 + lane] + a[base + lane * 32 + i]) + (i == lane ? 16.0 : 0.0);
    __syncwarp();
    for (int k = 0; k < 32; k++) {
        double root = sqrt(m[k][k]);
        __syncwarp();
        if (lane == k)
            m[k][k] = root;
        else if (lane > k)
            m[lane][k] /= root;
        __syncwarp();
        if (lane > k) {
            double own = m[lane][k];
            for (int j = k + 1; j <= lane; j++)
                m[lane][j] -= own * m[j][k];
        }
        __syncwarp();
    }
    for (int i = 0; i < 32; i++)
        out[base + i * 32 + lane] = lane <= i ? m[i][lane] : 0.0;
}
