// Neighbour access: a 1-D stencil with halo, a 7-point 3-D stencil, and transposes with and without bank conflicts.
// oriole: arch=compute_80

extern "C" __global__ void stencil_1d(const float* in, float* out, int n) {
    __shared__ float window[256 + 8];
    int g = blockIdx.x * 256 + threadIdx.x, l = threadIdx.x + 4;
    window[l] = g < n ? in[g] : 0.f;
    if (threadIdx.x < 4) {
        window[l - 4] = g >= 4 ? in[g - 4] : 0.f;
        window[l + 256] = g + 256 < n ? in[g + 256] : 0.f;
    }
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int o = -4; o <= 4; ++o) sum += window[l + o];
    if (g < n) out[g] = sum * (1.0f / 9);
}

extern "C" __global__ void heat_3d(const float* __restrict__ u, float* __restrict__ v, int nx, int ny, int nz, float k) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1) return;
    size_t plane = (size_t)nx * ny, i = plane + (size_t)y * nx + x;
    float below = u[i - plane], here = u[i];
    for (int z = 1; z < nz - 1; ++z, i += plane) {
        float above = u[i + plane];
        v[i] = here + k * (u[i - 1] + u[i + 1] + u[i - nx] + u[i + nx] + below + above - 6 * here);
        below = here;
        here = above;
    }
}

extern "C" __global__ void transpose_padded(const float* in, float* out, int width, int height) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < height && y + j < width) out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}
