// kernel-test 1
// about: a step of the lattice Boltzmann method in two dimensions with nine directions
// kernel: lattice_d2q9
// grid: 4 512 1
// block: 128 1 1
// param f: f32[2359296] = sized:196
// param walls: u32[262144] = random:197
// param out: f32[2359296] = zero
// param omega: f32 = 3f99999a
// expect out: exact = ?*2359296

// oriole: arch=compute_80
extern "C" __global__ void lattice_d2q9(const float *f, const unsigned *walls, float *out, float omega)
{
    const int n = 512, cells = n * n;
    const int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1}, opposite[9] = {0, 3, 4, 1, 2, 7, 8, 5, 6};
    int x = blockIdx.x * 128 + threadIdx.x, y = blockIdx.y, at = y * n + x;
    float v[9], density = 0, ux = 0, uy = 0;
#pragma unroll
    for (int i = 0; i < 9; i++) {
        v[i] = fabsf(f[i * cells + ((y - cy[i]) & (n - 1)) * n + ((x - cx[i]) & (n - 1))]);
        density += v[i];
        ux += cx[i] * v[i];
        uy += cy[i] * v[i];
    }
    bool is_wall = walls[at] >> 28 == 0;
    float inverse = 1.0f / density;
    ux *= inverse;
    uy *= inverse;
    float square = 1.5f * (ux * ux + uy * uy);
#pragma unroll
    for (int i = 0; i < 9; i++) {
        float weight = i == 0 ? 4 / 9.f : i < 5 ? 1 / 9.f : 1 / 36.f, along = 3.0f * (cx[i] * ux + cy[i] * uy);
        float rest = weight * density * (1.0f + along + 0.5f * along * along - square);
        out[i * cells + at] = is_wall ? v[opposite[i]] : v[i] + omega * (rest - v[i]);
    }
}
