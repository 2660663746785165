// kernel-test 1
// about: forces of springs to twelve neighbours in a cloth, and a step by Verlet
// kernel: cloth_springs
// grid: 16 128 1
// block: 32 4 1
// param points: f32[1048576] = sized:202
// param old: f32[1048576] = sized:203
// param out: f32[1048576] = zero
// expect out: exact = ?*1048576

// oriole: arch=compute_80
extern "C" __global__ void cloth_springs(const float4 *points, const float4 *old, float4 *out)
{
    const int n = 512;
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y, at = y * n + x;
    float4 own = points[at], before = old[at];
    float fx = 0, fy = -9.81f, fz = 0;
    const int dx[12] = {1, -1, 0, 0, 1, 1, -1, -1, 2, -2, 0, 0}, dy[12] = {0, 0, 1, -1, 1, -1, 1, -1, 0, 0, 2, -2};
    const float rest[12] = {1, 1, 1, 1, 1.4142136f, 1.4142136f, 1.4142136f, 1.4142136f, 2, 2, 2, 2};
#pragma unroll
    for (int i = 0; i < 12; i++) {
        int u = x + dx[i], v = y + dy[i];
        if (u < 0 || v < 0 || u >= n || v >= n)
            continue;
        float4 other = points[v * n + u];
        float ax = other.x - own.x, ay = other.y - own.y, az = other.z - own.z;
        float length = sqrtf(ax * ax + ay * ay + az * az) + 1e-6f, scale = 50.0f * (length - rest[i]) / length;
        fx += ax * scale;
        fy += ay * scale;
        fz += az * scale;
    }
    const float step = 1e-4f;
    out[at] = make_float4(own.x + 0.99f * (own.x - before.x) + fx * step, own.y + 0.99f * (own.y - before.y) + fy * step,
        own.z + 0.99f * (own.z - before.z) + fz * step, own.w);
}
