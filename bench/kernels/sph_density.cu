// kernel-test 1
// about: densities of particles by a smoothing kernel, with lists of 48 neighbours
// kernel: sph_density
// grid: 512 1 1
// block: 128 1 1
// param particles: f32[262144] = sized:122
// param neighbours: u32[3145728] = random:123
// param density: f32[131072] = zero
// expect density: exact = ?*131072

// oriole: arch=compute_80
extern "C" __global__ void sph_density(const float4 *particles, const unsigned *neighbours, float2 *density)
{
    unsigned at = blockIdx.x * 128 + threadIdx.x, n = 65536;
    float4 own = particles[at];
    const float h = 8.0f, scale = 315.0f / (64.0f * 3.14159265f * h * h * h * h * h * h * h * h * h);
    float sum = 0, inside = 0;
    for (int i = 0; i < 48; i++) {
        float4 other = particles[neighbours[i * n + at] & (n - 1)];
        float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z, square = dx * dx + dy * dy + dz * dz;
        if (square < h * h) {
            float rest = h * h - square;
            sum += fabsf(other.w) * rest * rest * rest;
            inside += 1;
        }
    }
    sum *= scale;
    density[at] = make_float2(sum, 2.0f * (powf(sum * 100.0f + 1.0f, 1.4f) - 1.0f) + inside);
}
