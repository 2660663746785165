// kernel-test 1
// about: heat in a box in double, with a conductivity for each cell
// kernel: heat_3d_double
// grid: 4 32 32
// block: 32 4 4
// param heat: f64[2097152] = sized:104
// param conductivity: f64[2097152] = sized:105
// param out: f64[2097152] = zero
// expect out: exact = ?*2097152

// oriole: arch=compute_80
// The flow through a face: the mean of the conductivities times the difference.
__device__ double flow(const double *heat, const double *conductivity, int a, int b)
{
    return 0.5 * (conductivity[a] + conductivity[b]) * (heat[b] - heat[a]);
}

extern "C" __global__ void heat_3d_double(const double *heat, const double *conductivity, double *out)
{
    const int n = 128;
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y, z = blockIdx.z * 4 + threadIdx.z;
    int at = (z * n + y) * n + x;
    double sum = 0;
    if (x > 0)
        sum += flow(heat, conductivity, at, at - 1);
    if (x < n - 1)
        sum += flow(heat, conductivity, at, at + 1);
    if (y > 0)
        sum += flow(heat, conductivity, at, at - n);
    if (y < n - 1)
        sum += flow(heat, conductivity, at, at + n);
    if (z > 0)
        sum += flow(heat, conductivity, at, at - n * n);
    if (z < n - 1)
        sum += flow(heat, conductivity, at, at + n * n);
    out[at] = heat[at] + 0.01 * sum;
}
