// kernel-test 1
// about: rates of 12 reactions between 8 species for each cell, by Arrhenius' law in double
// kernel: reaction_rates
// grid: 512 1 1
// block: 128 1 1
// param temperature: f64[65536] = sized:194
// param species: f64[524288] = sized:195
// param rates: f64[524288] = zero
// expect rates: exact = ?*524288

// oriole: arch=compute_80
__device__ double rate(double scale, double power, double energy, double t, double log_t, double inverse)
{
    return scale * exp(power * log_t - energy * inverse) * (1.0 + 1e-3 * t);
}

extern "C" __global__ void reaction_rates(const double *temperature, const double *species, double *rates)
{
    unsigned at = blockIdx.x * 128 + threadIdx.x, n = 65536;
    double t = 300.0 + 100.0 * fabs(temperature[at]), log_t = log(t), inverse = 1.0 / t, c[8], w[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        c[i] = fabs(species[i * n + at]);
    double total = c[0] + c[1] + c[2] + c[3] + c[4] + c[5] + c[6] + c[7];
    double r0 = rate(3.5e3, -0.41, 8350.0, t, log_t, inverse) * c[0] * c[1] - rate(1.2e1, 0.3, 900.0, t, log_t, inverse) * c[2] * c[3];
    double r1 = rate(5.1e1, 0.67, 3170.0, t, log_t, inverse) * c[2] * c[4] - rate(2.7e1, 0.63, 2500.0, t, log_t, inverse) * c[0] * c[3];
    double r2 = rate(2.2e2, 0.51, 1730.0, t, log_t, inverse) * c[3] * c[4] - rate(9.3e2, 0.4, 9200.0, t, log_t, inverse) * c[0] * c[5];
    double r3 = rate(3.0e1, 0.02, 6620.0, t, log_t, inverse) * c[2] * c[5] - rate(1.5e0, 0.6, 600.0, t, log_t, inverse) * c[3] * c[3];
    double r4 = (rate(4.6e3, -1.4, 5260.0, t, log_t, inverse) * c[4] - rate(1.1e2, -1.0, 0.0, t, log_t, inverse) * c[0] * c[0]) * total;
    double r5 = rate(1.5e2, 0.6, 0.0, t, log_t, inverse) * c[0] * c[1];
    double k0 = rate(6.4e2, -1.7, 250.0, t, log_t, inverse), limit = k0 * total / (r5 + 1.0), fall = limit / (1.0 + limit);
    r5 *= fall * pow(0.5, 1.0 / (1.0 + limit * limit));
    double r6 = rate(1.7e1, 0.0, 410.0, t, log_t, inverse) * c[6] * c[0], r7 = rate(3.3e1, 0.0, -250.0, t, log_t, inverse) * c[6] * c[2];
    double r8 = rate(1.9e0, 0.1, 5500.0, t, log_t, inverse) * c[6] * c[6] - rate(3.0e0, 0.2, 200.0, t, log_t, inverse) * c[7] * c[1];
    w[0] = -r0 + r1 + r2 + 2 * r4 - r5 - r6;
    w[1] = -r0 - r5 + r7 + r8;
    w[2] = r0 - r1 - r3 - r7;
    w[3] = r0 + r1 - r2 + 2 * r3 + r7;
    w[4] = -r1 - r2 - r4 + r6;
    w[5] = r2 - r3;
    w[6] = r5 - r6 - r7 - 2 * r8;
    w[7] = r8;
#pragma unroll
    for (int i = 0; i < 8; i++)
        rates[i * n + at] = w[i];
}
