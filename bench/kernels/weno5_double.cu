// kernel-test 1
// about: fluxes by the WENO scheme of fifth order in double: long expressions and divisions
// kernel: weno5_double
// grid: 2048 1 1
// block: 128 1 1
// param u: f64[262152] = sized:106
// param flux: f64[262144] = zero
// expect flux: exact = ?*262144

// oriole: arch=compute_80
__device__ double square(double v) { return v * v; }

extern "C" __global__ void weno5_double(const double *u, double *flux)
{
    int at = blockIdx.x * 128 + threadIdx.x;
    double a = u[at], b = u[at + 1], c = u[at + 2], d = u[at + 3], e = u[at + 4];
    double s0 = 13.0 / 12.0 * square(a - 2 * b + c) + 0.25 * square(a - 4 * b + 3 * c);
    double s1 = 13.0 / 12.0 * square(b - 2 * c + d) + 0.25 * square(b - d);
    double s2 = 13.0 / 12.0 * square(c - 2 * d + e) + 0.25 * square(3 * c - 4 * d + e);
    double w0 = 0.1 / square(1e-6 + s0), w1 = 0.6 / square(1e-6 + s1), w2 = 0.3 / square(1e-6 + s2);
    double p0 = (2 * a - 7 * b + 11 * c) / 6.0, p1 = (-b + 5 * c + 2 * d) / 6.0, p2 = (2 * c + 5 * d - e) / 6.0;
    flux[at] = (w0 * p0 + w1 * p1 + w2 * p2) / (w0 + w1 + w2);
}
