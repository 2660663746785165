// kernel-test 1
// about: overlap, kinetic and attraction integrals of s functions in double: exponentials, erf, square roots
// kernel: gaussian_integrals
// grid: 256 1 1
// block: 128 1 1
// param centers: f64[4096] = sized:193
// param out: f64[98304] = zero
// expect out: exact = ?*98304

// oriole: arch=compute_80
// The Boys function of order zero.
__device__ double boys(double t) { return t < 1e-6 ? 1.0 - t / 3.0 : 0.5 * sqrt(3.14159265358979323846 / t) * erf(sqrt(t)); }

// A center has a position and an exponent; a thread takes a pair of centers and four nuclei.
extern "C" __global__ void gaussian_integrals(const double *centers, double *out)
{
    unsigned at = blockIdx.x * 128 + threadIdx.x, i = at % 1024, j = (at / 1024 * 31 + i) % 1024;
    const double *a = centers + i * 4, *b = centers + j * 4;
    double alpha = fabs(a[3]) * 0.1, beta = fabs(b[3]) * 0.1, p = alpha + beta, reduced = alpha * beta / p;
    double dx = a[0] - b[0], dy = a[1] - b[1], dz = a[2] - b[2], square = dx * dx + dy * dy + dz * dz;
    double factor = exp(-reduced * square * 0.01), root = sqrt(3.14159265358979323846 / p);
    double overlap = root * root * root * factor, kinetic = reduced * (3.0 - 2.0 * reduced * square) * overlap;
    double px = (alpha * a[0] + beta * b[0]) / p, py = (alpha * a[1] + beta * b[1]) / p, pz = (alpha * a[2] + beta * b[2]) / p;
    double attraction = 0;
    for (int k = 0; k < 4; k++) {
        const double *c = centers + k * 4;
        double x = px - c[0], y = py - c[1], z = pz - c[2];
        attraction -= 6.28318530717958647692 / p * factor * boys(p * (x * x + y * y + z * z));
    }
    out[at] = overlap;
    out[32768 + at] = kinetic;
    out[65536 + at] = attraction;
}
