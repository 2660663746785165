// kernel-test 1
// about: the real-space part of Ewald sums: erfc, exponentials and reciprocal roots
// kernel: coulomb_ewald
// grid: 256 1 1
// block: 128 1 1
// param atoms: f32[131072] = sized:128
// param neighbours: u32[1048576] = random:129
// param forces: f32[131072] = zero
// param beta: f32 = 3e99999a
// expect forces: exact = ?*131072

// oriole: arch=compute_80
extern "C" __global__ void coulomb_ewald(const float4 *atoms, const unsigned *neighbours, float4 *forces, float beta)
{
    unsigned at = blockIdx.x * 128 + threadIdx.x, n = 32768;
    float4 own = atoms[at];
    float fx = 0, fy = 0, fz = 0, energy = 0;
    for (int i = 0; i < 32; i++) {
        float4 other = atoms[neighbours[i * n + at] & (n - 1)];
        float dx = own.x - other.x, dy = own.y - other.y, dz = own.z - other.z;
        float square = dx * dx + dy * dy + dz * dz + 0.01f, inverse = rsqrtf(square), r = square * inverse;
        float product = own.w * other.w, tail = erfcf(beta * r) * inverse;
        float scale = product * (tail + 1.128379167f * beta * expf(-beta * beta * square)) * inverse * inverse;
        fx += dx * scale;
        fy += dy * scale;
        fz += dz * scale;
        energy += product * tail;
    }
    forces[at] = make_float4(fx, fy, fz, energy);
}
