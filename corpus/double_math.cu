// Double precision: the math library's sin, cos, exp, pow, log and friends, and rounding-mode intrinsics.
// oriole: arch=compute_80

extern "C" __global__ void transcendental(const double* in, double* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double x = in[i], s, c;
    sincos(x, &s, &c);
    out[i] = s * c + exp(-x * x) + log(fabs(x) + 1.0) + pow(fabs(x), 1.7) + sqrt(fabs(x)) + 1.0 / (x + 3.0);
}

extern "C" __global__ void special(const double* in, double* out) {
    int i = threadIdx.x;
    double x = in[i];
    out[i] = erf(x) + tgamma(x * 0.1 + 1.0);
    out[i + 64] = atan2(x, 2.0) + cbrt(x) + hypot(x, 1.0);
    out[i + 128] = fmod(x, 0.7) + rint(x) + floor(x) + trunc(x) + copysign(x, -1.0);
}

extern "C" __global__ void double_rounding(const double* in, double* out, float* f, long long* l) {
    int i = threadIdx.x;
    double a = in[i], b = in[i + 32];
    out[0] = __dadd_rd(a, b) + __dadd_ru(a, b) + __dmul_rz(a, b) + __fma_ru(a, b, a);
    out[1] = __ddiv_rn(a, b) + __dsqrt_rd(a) + __drcp_ru(b);
    out[2] = fmin(a, b) * fmax(a, 0.5);
    f[i] = __double2float_rd(a) + __double2float_rz(b) + (float)(a > b);
    l[i] = __double2ll_rn(a) + __double2int_ru(b) + __double_as_longlong(a) + __double2hiint(b) + (long long)(unsigned long long)b;
    out[3] = __hiloint2double(i, 5) + __ll2double_rd(l[i]) + (double)f[i] + __uint2double_rn(i);
}
