// kernel-test 1
// about: rays against 128 triangles by the test of Moeller and Trumbore
// kernel: ray_triangles
// grid: 1024 1 1
// block: 128 1 1
// param triangles: f32[1536] = sized:117
// param rays: f32[786432] = sized:118
// param hits: f32[524288] = zero
// expect hits: exact = ?*524288

// oriole: arch=compute_80
extern "C" __global__ void ray_triangles(const float4 *triangles, const float *rays, float4 *hits)
{
    __shared__ float4 all[384];
    for (int i = threadIdx.x; i < 384; i += 128)
        all[i] = triangles[i];
    __syncthreads();
    unsigned at = blockIdx.x * 128 + threadIdx.x;
    const float *ray = rays + at * 6;
    float3 o = make_float3(ray[0], ray[1], ray[2]), d = make_float3(ray[3], ray[4], ray[5]);
    float nearest = 1e30f, bu = 0, bv = 0;
    int hit = -1;
    for (int i = 0; i < 128; i++) {
        float4 a = all[i * 3], e = all[i * 3 + 1], f = all[i * 3 + 2];
        float px = d.y * f.z - d.z * f.y, py = d.z * f.x - d.x * f.z, pz = d.x * f.y - d.y * f.x;
        float determinant = e.x * px + e.y * py + e.z * pz;
        if (fabsf(determinant) < 1e-8f)
            continue;
        float inverse = 1.0f / determinant, tx = o.x - a.x, ty = o.y - a.y, tz = o.z - a.z;
        float u = (tx * px + ty * py + tz * pz) * inverse;
        if (u < 0 || u > 1)
            continue;
        float qx = ty * e.z - tz * e.y, qy = tz * e.x - tx * e.z, qz = tx * e.y - ty * e.x;
        float v = (d.x * qx + d.y * qy + d.z * qz) * inverse;
        if (v < 0 || u + v > 1)
            continue;
        float t = (f.x * qx + f.y * qy + f.z * qz) * inverse;
        if (t > 1e-4f && t < nearest) {
            nearest = t;
            bu = u;
            bv = v;
            hit = i;
        }
    }
    hits[at] = make_float4(nearest, bu, bv, __int_as_float(hit));
}
