// Volumes, layers, cube maps and single texels by number: ray casting, lookup, gather, derivatives, surfaces of three dimensions.
// oriole: arch=compute_80

typedef cudaTextureObject_t Texture;
typedef cudaSurfaceObject_t Surface;

struct Ray {
    float3 origin, step;
};

extern "C" __global__ void cast_rays(Texture volume, Texture transfer, const Ray* rays, float4* out, int count, int steps, float limit) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    float3 p = rays[n].origin, d = rays[n].step;
    float4 sum = make_float4(0, 0, 0, 0);
    for (int i = 0; i < steps; i++) {
        float sample = tex3D<float>(volume, p.x, p.y, p.z);
        float4 color = tex1D<float4>(transfer, sample);
        float rest = (1 - sum.w) * color.w;
        sum.x += rest * color.x;
        sum.y += rest * color.y;
        sum.z += rest * color.z;
        sum.w += rest;
        if (sum.w > limit) break;
        p.x += d.x;
        p.y += d.y;
        p.z += d.z;
    }
    out[n] = sum;
}

extern "C" __global__ void gradient(Texture volume, float4* out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
    float a = x + 0.5f, b = y + 0.5f, c = z + 0.5f;
    float gx = tex3D<float>(volume, a + 1, b, c) - tex3D<float>(volume, a - 1, b, c);
    float gy = tex3D<float>(volume, a, b + 1, c) - tex3D<float>(volume, a, b - 1, c);
    float gz = tex3D<float>(volume, a, b, c + 1) - tex3D<float>(volume, a, b, c - 1);
    out[(z * height + y) * width + x] = make_float4(gx, gy, gz, rsqrtf(gx * gx + gy * gy + gz * gz));
}

extern "C" __global__ void reflect(Texture room, Texture rooms, const float4* normals, float4* out, int count, int layer) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    float4 m = normals[n];
    float4 a = texCubemap<float4>(room, m.x, m.y, m.z);
    float4 b = texCubemapLayeredLod<float4>(rooms, m.x, m.y, m.z, layer, m.w);
    out[n] = make_float4(a.x * b.x, a.y * b.y, a.z * b.z, 1);
}

extern "C" __global__ void gather_rows(Texture values, const int* first, const int* column, const float* weight, float* out, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (int k = first[row]; k < first[row + 1]; k++) sum += weight[k] * tex1Dfetch<float>(values, column[k]);
    out[row] = sum;
}

extern "C" __global__ void corners(Texture image, Texture layers, float4* out, float2 scale, int layer) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float u = x * scale.x, v = y * scale.y;
    float4 r = tex2Dgather<float4>(image, u, v, 0), g = tex2Dgather<float4>(image, u, v, 1);
    float4 h = tex2DGrad<float4>(image, u, v, make_float2(scale.x, 0), make_float2(0, scale.y));
    float4 l = tex2DLayered<float4>(layers, u, v, layer), k = tex2DLayeredLod<float4>(layers, u, v, layer, 1.5f);
    float lo = fminf(fminf(r.x, r.y), fminf(r.z, r.w)), hi = fmaxf(fmaxf(g.x, g.y), fmaxf(g.z, g.w));
    out[y * gridDim.x * blockDim.x + x] = make_float4(lo + h.x, hi + h.y, l.z * k.x, l.w * k.w);
}

extern "C" __global__ void diffuse(Surface from, Surface to, int width, int height, int depth, float rate) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    for (int z = 0; z < depth; z++) {
        float c = surf3Dread<float>(from, x * 4, y, z);
        float a = surf3Dread<float>(from, (x - 1) * 4, y, z, cudaBoundaryModeClamp) + surf3Dread<float>(from, (x + 1) * 4, y, z, cudaBoundaryModeClamp);
        float b = surf3Dread<float>(from, x * 4, y - 1, z, cudaBoundaryModeClamp) + surf3Dread<float>(from, x * 4, y + 1, z, cudaBoundaryModeClamp);
        surf3Dwrite(c + rate * (a + b - 4 * c), to, x * 4, y, z);
    }
}

extern "C" __global__ void paint(Surface layers, Surface line, const ushort2* points, int count, int layer) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    ushort2 p = points[n];
    uchar4 old = surf2DLayeredread<uchar4>(layers, p.x * 4, p.y, layer);
    old.w = 255;
    surf2DLayeredwrite(old, layers, p.x * 4, p.y, layer);
    surf1Dwrite(make_float2(p.x, p.y), line, n * 8);
}
