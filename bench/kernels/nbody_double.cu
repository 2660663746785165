// kernel-test 1
// about: forces between 4096 bodies in double
// kernel: nbody_double
// grid: 32 1 1
// block: 128 1 1
// param bodies: f64[16384] = sized:121
// param forces: f64[16384] = zero
// expect forces: exact = ?*16384

// oriole: arch=compute_80
extern "C" __global__ void nbody_double(const double4 *bodies, double4 *forces)
{
    __shared__ double tile[4][128];
    unsigned at = blockIdx.x * 128 + threadIdx.x;
    const double *words = (const double *)bodies;
    double x = words[at * 4], y = words[at * 4 + 1], z = words[at * 4 + 2], fx = 0, fy = 0, fz = 0;
    for (int start = 0; start < 1024; start += 128) {
        for (int i = 0; i < 4; i++)
            tile[i][threadIdx.x] = words[(start + threadIdx.x) * 4 + i];
        __syncthreads();
#pragma unroll 4
        for (int i = 0; i < 128; i++) {
            double dx = tile[0][i] - x, dy = tile[1][i] - y, dz = tile[2][i] - z;
            double square = dx * dx + dy * dy + dz * dz + 0.01, inverse = rsqrt(square);
            double scale = tile[3][i] * inverse * inverse * inverse;
            fx += dx * scale;
            fy += dy * scale;
            fz += dz * scale;
        }
        __syncthreads();
    }
    double *out = (double *)forces + at * 4;
    out[0] = fx;
    out[1] = fy;
    out[2] = fz;
    out[3] = 0;
}
