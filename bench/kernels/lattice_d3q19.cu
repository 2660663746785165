// kernel-test 1
// about: a step of the lattice Boltzmann method in three dimensions with 19 directions
// kernel: lattice_d3q19
// grid: 1 64 64
// block: 64 1 1
// param f: f32[4980736] = sized:198
// param out: f32[4980736] = zero
// param omega: f32 = 3f99999a
// expect out: exact = ?*4980736

// oriole: arch=compute_80
extern "C" __global__ void lattice_d3q19(const float *f, float *out, float omega)
{
    const int n = 64, cells = n * n * n;
    const int cx[19] = {0, 1, -1, 0, 0, 0, 0, 1, -1, 1, -1, 1, -1, 1, -1, 0, 0, 0, 0};
    const int cy[19] = {0, 0, 0, 1, -1, 0, 0, 1, -1, -1, 1, 0, 0, 0, 0, 1, -1, 1, -1};
    const int cz[19] = {0, 0, 0, 0, 0, 1, -1, 0, 0, 0, 0, 1, -1, -1, 1, 1, -1, -1, 1};
    int x = threadIdx.x, y = blockIdx.y, z = blockIdx.z, at = (z * n + y) * n + x;
    float v[19], density = 0, ux = 0, uy = 0, uz = 0;
#pragma unroll
    for (int i = 0; i < 19; i++) {
        v[i] = fabsf(f[i * cells + (((z - cz[i]) & (n - 1)) * n + ((y - cy[i]) & (n - 1))) * n + ((x - cx[i]) & (n - 1))]);
        density += v[i];
        ux += cx[i] * v[i];
        uy += cy[i] * v[i];
        uz += cz[i] * v[i];
    }
    float inverse = 1.0f / density;
    ux *= inverse;
    uy *= inverse;
    uz *= inverse;
    float square = 1.5f * (ux * ux + uy * uy + uz * uz);
#pragma unroll
    for (int i = 0; i < 19; i++) {
        float weight = i == 0 ? 1 / 3.f : i < 7 ? 1 / 18.f : 1 / 36.f, along = 3.0f * (cx[i] * ux + cy[i] * uy + cz[i] * uz);
        float rest = weight * density * (1.0f + along + 0.5f * along * along - square);
        out[i * cells + at] = v[i] + omega * (rest - v[i]);
    }
}
