// Textures and surfaces through bindless handles: 1-D to 3-D, cube, layered, level of detail, gather, surface access.
// oriole: arch=compute_80

typedef cudaTextureObject_t Texture;
typedef cudaSurfaceObject_t Surface;

extern "C" __global__ void sample_textures(Texture line, Texture plane, Texture volume, Texture cube, float4* out) {
    float u = threadIdx.x / 64.0f, v = blockIdx.x / 64.0f;
    float4 r = tex2D<float4>(plane, u, v);
    r.x += tex1D<float>(line, u);
    r.y += tex3D<float2>(volume, u, v, 0.5f).y;
    r.z += texCubemap<float4>(cube, u, v, 1.0f).w;
    r.w += tex1Dfetch<float>(line, threadIdx.x);
    out[blockIdx.x * blockDim.x + threadIdx.x] = r;
}

extern "C" __global__ void sample_levels(Texture plane, Texture layers, int4* out, float2* small) {
    float u = threadIdx.x * 0.01f, v = threadIdx.y * 0.01f;
    int4 a = tex2DLod<int4>(plane, u, v, 2.0f);
    uint4 b = tex2DLayered<uint4>(layers, u, v, 3);
    float4 g = tex2Dgather<float4>(layers, u, v, 1);
    float4 h = tex2DGrad<float4>(plane, u, v, make_float2(0.1f, 0), make_float2(0, 0.1f));
    out[threadIdx.x] = make_int4(a.x + b.x, a.y, b.z, a.w);
    small[threadIdx.x] = make_float2(g.x + h.y, g.w * h.z);
}

extern "C" __global__ void copy_surfaces(Surface from, Surface to, Surface volume, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    uchar4 p = surf2Dread<uchar4>(from, x * 4, y);
    p.x = 255 - p.x;
    surf2Dwrite(p, to, x * 4, y, cudaBoundaryModeClamp);
    float f = surf3Dread<float>(volume, x * 4, y, 1, cudaBoundaryModeZero);
    surf3Dwrite(f * 2, volume, x * 4, y, 2);
    surf1Dwrite(make_int2(x, y), from, x * 8);
}
