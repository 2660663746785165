// kernel-test 1
// about: rays against 64 spheres: divergence, square roots, many live values
// kernel: ray_spheres
// grid: 64 64 1
// block: 16 16 1
// param spheres: f32[256] = sized:45
// param out: f32[1048576] = zero
// expect out: exact = ?*1048576

// oriole: arch=compute_80
extern "C" __global__ void ray_spheres(const float4 *spheres, float *out)
{
    __shared__ float4 all[64];
    unsigned thread = threadIdx.y * 16 + threadIdx.x, column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (thread < 64)
        all[thread] = spheres[thread];
    __syncthreads();
    float dx = column / 512.0f - 1.0f, dy = row / 512.0f - 1.0f, dz = 1.0f;
    float inverse = rsqrtf(dx * dx + dy * dy + dz * dz), shade = 0;
    dx *= inverse; dy *= inverse; dz *= inverse;
    float ox = 0, oy = 0, oz = -20;
    for (int bounce = 0; bounce < 3; bounce++) {
        float nearest = 1e30f;
        int hit = -1;
        for (int i = 0; i < 64; i++) {
            float4 s = all[i];
            float x = ox - s.x, y = oy - s.y, z = oz - s.z, radius = fabsf(s.w) * 0.2f;
            float b = x * dx + y * dy + z * dz, c = x * x + y * y + z * z - radius * radius, under = b * b - c;
            if (under > 0) {
                float t = -b - sqrtf(under);
                if (t > 1e-3f && t < nearest) {
                    nearest = t;
                    hit = i;
                }
            }
        }
        if (hit < 0) {
            shade += 0.3f * (1.0f + dy);
            break;
        }
        float4 s = all[hit];
        ox += dx * nearest; oy += dy * nearest; oz += dz * nearest;
        float nx = ox - s.x, ny = oy - s.y, nz = oz - s.z, unit = rsqrtf(nx * nx + ny * ny + nz * nz);
        nx *= unit; ny *= unit; nz *= unit;
        float along = dx * nx + dy * ny + dz * nz;
        dx -= 2 * along * nx; dy -= 2 * along * ny; dz -= 2 * along * nz;
        shade += 0.2f * ny;
    }
    out[row * 1024 + column] = shade;
}
