// kernel-test 1
// about: Lennard-Jones forces and energies with lists of 64 neighbours and a cutoff
// kernel: lennard_jones
// grid: 512 1 1
// block: 128 1 1
// param atoms: f32[262144] = sized:126
// param neighbours: u32[4194304] = random:127
// param forces: f32[262144] = zero
// expect forces: exact = ?*262144

// oriole: arch=compute_80
extern "C" __global__ void lennard_jones(const float4 *atoms, const unsigned *neighbours, float4 *forces)
{
    unsigned at = blockIdx.x * 128 + threadIdx.x, n = 65536;
    float4 own = atoms[at];
    float fx = 0, fy = 0, fz = 0, energy = 0;
    const float box = 20.0f, inverse_box = 1.0f / box, cutoff = 64.0f;
    for (int i = 0; i < 64; i++) {
        float4 other = atoms[neighbours[i * n + at] & (n - 1)];
        float dx = own.x - other.x, dy = own.y - other.y, dz = own.z - other.z;
        dx -= box * rintf(dx * inverse_box);
        dy -= box * rintf(dy * inverse_box);
        dz -= box * rintf(dz * inverse_box);
        float square = dx * dx + dy * dy + dz * dz + 0.5f;
        if (square < cutoff) {
            float inverse = 1.0f / square, third = inverse * inverse * inverse;
            float scale = 24.0f * third * (2.0f * third - 1.0f) * inverse;
            fx += dx * scale;
            fy += dy * scale;
            fz += dz * scale;
            energy += 4.0f * third * (third - 1.0f);
        }
    }
    forces[at] = make_float4(fx, fy, fz, energy);
}
