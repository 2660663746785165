// kernel-test 1
// about: fields at particles from a grid, interpolated from eight cells, and a push in double
// kernel: particle_gather
// grid: 1024 1 1
// block: 128 1 1
// param particles: u32[786432] = random:124
// param field: f32[131072] = sized:125
// param out: f32[393216] = zero
// expect out: exact = ?*393216

// oriole: arch=compute_80
extern "C" __global__ void particle_gather(const unsigned *particles, const float4 *field, float *out)
{
    unsigned at = blockIdx.x * 128 + threadIdx.x;
    // Random bits as positions: 5 bits of cell, the rest as the fraction.
    unsigned bx = particles[at * 6], by = particles[at * 6 + 1], bz = particles[at * 6 + 2];
    int x = bx >> 27, y = by >> 27, z = bz >> 27;
    float fx = (bx & 0x7ffffff) * 0x1p-27f, fy = (by & 0x7ffffff) * 0x1p-27f, fz = (bz & 0x7ffffff) * 0x1p-27f;
    float ex = 0, ey = 0, ez = 0;
#pragma unroll
    for (int corner = 0; corner < 8; corner++) {
        int i = corner & 1, j = corner >> 1 & 1, k = corner >> 2;
        float weight = (i ? fx : 1 - fx) * (j ? fy : 1 - fy) * (k ? fz : 1 - fz);
        float4 value = field[(((z + k) & 31) * 32 + ((y + j) & 31)) * 32 + ((x + i) & 31)];
        ex += weight * value.x;
        ey += weight * value.y;
        ez += weight * value.z;
    }
    float vx = (int)particles[at * 6 + 3] * 0x1p-31f, vy = (int)particles[at * 6 + 4] * 0x1p-31f, vz = (int)particles[at * 6 + 5] * 0x1p-31f;
    float gamma = rsqrtf(1.0f + vx * vx + vy * vy + vz * vz);
    out[at * 3] = (float)(double(vx) + 0.01 * double(ex) * gamma);
    out[at * 3 + 1] = (float)(double(vy) + 0.01 * double(ey) * gamma);
    out[at * 3 + 2] = (float)(double(vz) + 0.01 * double(ez) * gamma);
}
