// kernel-test 1
// about: a step of the wave equation in double, fourth order in space
// kernel: wave_2d_double
// grid: 32 128 1
// block: 32 8 1
// param now: f64[1048576] = sized:101
// param before: f64[1048576] = sized:102
// param speed: f64[1048576] = sized:103
// param next: f64[1048576] = zero
// param step: f64 = 3f847ae147ae147b
// expect next: exact = ?*1048576

// oriole: arch=compute_80
extern "C" __global__ void wave_2d_double(const double *now, const double *before, const double *speed, double *next, double step)
{
    const int n = 1024;
    int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y, at = i * n + j;
    if (i < 2 || j < 2 || i >= n - 2 || j >= n - 2) {
        next[at] = 0.0;
        return;
    }
    double here = now[at];
    double x = -(now[at - 2] + now[at + 2]) / 12.0 + 4.0 / 3.0 * (now[at - 1] + now[at + 1]) - 2.5 * here;
    double y = -(now[at - 2 * n] + now[at + 2 * n]) / 12.0 + 4.0 / 3.0 * (now[at - n] + now[at + n]) - 2.5 * here;
    double c = speed[at] * step;
    next[at] = 2.0 * here - before[at] + c * c * (x + y);
}
