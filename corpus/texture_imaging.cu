// Image processing with textures: convolution, bilateral filter, warps, pyramids, handles in structures and arrays.
// oriole: arch=compute_80

typedef cudaTextureObject_t Texture;
typedef cudaSurfaceObject_t Surface;

__constant__ float taps[17];
__constant__ Texture frames[8];

struct Scene {
    Texture color;
    Texture depth;
    Surface target;
    float2 scale;
    int width, height;
};

extern "C" __global__ void convolve_rows(Texture image, float* out, int width, int height, int radius) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0;
    for (int k = -radius; k <= radius; k++) sum += taps[k + radius] * tex2D<float>(image, x + k + 0.5f, y + 0.5f);
    out[y * width + x] = sum;
}

extern "C" __global__ void convolve_fixed(Texture image, Surface out) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int k = 0; k < 5; k++) {
        float4 p = tex2D<float4>(image, x + 0.5f, y + k - 1.5f);
        sum.x += taps[k] * p.x;
        sum.y += taps[k] * p.y;
        sum.z += taps[k] * p.z;
        sum.w += taps[k] * p.w;
    }
    surf2Dwrite(sum, out, x * 16, y);
}

extern "C" __global__ void bilateral(Texture image, float4* out, int width, int height, int radius, float spread, float range) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float4 center = tex2D<float4>(image, x, y), sum = make_float4(0, 0, 0, 0);
    float total = 0;
    for (int j = -radius; j <= radius; j++)
        for (int i = -radius; i <= radius; i++) {
            float4 p = tex2D<float4>(image, x + i, y + j);
            float dx = p.x - center.x, dy = p.y - center.y, dz = p.z - center.z;
            float weight = __expf(-(i * i + j * j) * spread - (dx * dx + dy * dy + dz * dz) * range);
            total += weight;
            sum.x += weight * p.x;
            sum.y += weight * p.y;
            sum.z += weight * p.z;
        }
    out[y * width + x] = make_float4(sum.x / total, sum.y / total, sum.z / total, 1);
}

extern "C" __global__ void halve(Texture image, Surface out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    uchar4 a = tex2D<uchar4>(image, 2 * x, 2 * y), b = tex2D<uchar4>(image, 2 * x + 1, 2 * y);
    uchar4 c = tex2D<uchar4>(image, 2 * x, 2 * y + 1), d = tex2D<uchar4>(image, 2 * x + 1, 2 * y + 1);
    uchar4 r;
    r.x = (a.x + b.x + c.x + d.x + 2) / 4;
    r.y = (a.y + b.y + c.y + d.y + 2) / 4;
    r.z = (a.z + b.z + c.z + d.z + 2) / 4;
    r.w = (a.w + b.w + c.w + d.w + 2) / 4;
    surf2Dwrite(r, out, x * 4, y);
}

extern "C" __global__ void compose(const Scene scene, float threshold) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= scene.width || y >= scene.height) return;
    float u = x * scene.scale.x, v = y * scene.scale.y;
    float4 p = tex2D<float4>(scene.color, u, v);
    float z = tex2D<float>(scene.depth, u, v);
    if (z > threshold) p = tex2DLod<float4>(scene.color, u, v, z - threshold);
    surf2Dwrite(p, scene.target, x * 16, y);
}

extern "C" __global__ void blend_frames(float* out, int width, int frame, float t) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    float a = tex2D<float>(frames[frame], x, y), b = tex2D<float>(frames[frame + 1], x, y);
    out[y * width + x] = a + (b - a) * t;
}

extern "C" __global__ void sum_list(const Texture* list, int count, float* out, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    float sum = 0;
    for (int i = 0; i < count; i++) sum += tex2D<float>(list[i], x, y);
    out[y * width + x] = sum;
}

extern "C" __global__ void pick_material(const Texture* materials, const int* which, const float2* place, float4* out, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float2 p = place[i];
    out[i] = tex2D<float4>(materials[which[i]], p.x, p.y);
}
