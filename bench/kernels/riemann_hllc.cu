// kernel-test 1
// about: fluxes between cells of a gas by the solver HLLC in float
// kernel: riemann_hllc
// grid: 2048 1 1
// block: 256 1 1
// param density: f32[524289] = sized:199
// param momentum: f32[524289] = sized:200
// param energy: f32[524289] = sized:201
// param flux: f32[1572864] = zero
// expect flux: exact = ?*1572864

// oriole: arch=compute_80
extern "C" __global__ void riemann_hllc(const float *density, const float *momentum, const float *energy, float *flux)
{
    unsigned at = blockIdx.x * 256 + threadIdx.x, n = 524288;
    const float gamma = 1.4f;
    float rl = fabsf(density[at]), rr = fabsf(density[at + 1]), ml = momentum[at], mr = momentum[at + 1];
    float ul = ml / rl, ur = mr / rr, el = fabsf(energy[at]) + ml * ul, er = fabsf(energy[at + 1]) + mr * ur;
    float pl = (gamma - 1) * (el - 0.5f * ml * ul), pr = (gamma - 1) * (er - 0.5f * mr * ur);
    float cl = sqrtf(gamma * pl / rl), cr = sqrtf(gamma * pr / rr);
    float sl = fminf(ul - cl, ur - cr), sr = fmaxf(ul + cl, ur + cr);
    float middle = (pr - pl + ml * (sl - ul) - mr * (sr - ur)) / (rl * (sl - ul) - rr * (sr - ur));
    bool left = middle >= 0;
    float r = left ? rl : rr, m = left ? ml : mr, u = left ? ul : ur, e = left ? el : er, p = left ? pl : pr, s = left ? sl : sr;
    float f0 = m, f1 = m * u + p, f2 = u * (e + p);
    if (left ? sl < 0 : sr > 0) {
        float scale = r * (s - u) / (s - middle);
        f0 += s * (scale - r);
        f1 += s * (scale * middle - m);
        f2 += s * (scale * (e / r + (middle - u) * (middle + p / (r * (s - u)))) - e);
    }
    flux[at] = f0;
    flux[n + at] = f1;
    flux[2 * n + at] = f2;
}
