// Scientific loops: n-body forces, Mandelbrot escape times, Monte Carlo with a counter-based generator, Kahan summation.
// oriole: arch=compute_80
// oriole: arch=compute_120

extern "C" __global__ void nbody_forces(const float4* __restrict__ bodies, float3* acceleration, int n, float softening) {
    __shared__ float4 tile[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    float4 me = bodies[i];
    float ax = 0, ay = 0, az = 0;
    for (int base = 0; base < n; base += 256) {
        tile[threadIdx.x] = bodies[base + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < 256; ++j) {
            float dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
            float r = rsqrtf(dx * dx + dy * dy + dz * dz + softening);
            float f = tile[j].w * r * r * r;
            ax += dx * f; ay += dy * f; az += dz * f;
        }
        __syncthreads();
    }
    acceleration[i] = make_float3(ax, ay, az);
}

template <typename T>
__device__ __forceinline__ int escape(T cx, T cy, int limit) {
    T x = 0, y = 0;
    int i = 0;
    while (i < limit && x * x + y * y < T(4)) { T t = x * x - y * y + cx; y = 2 * x * y + cy; x = t; ++i; }
    return i;
}

extern "C" __global__ void mandelbrot(uchar4* image, int width, int height, double x0, double y0, double step, bool precise) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int i = precise ? escape<double>(x0 + x * step, y0 + y * step, 1000) : escape<float>(x0 + x * step, y0 + y * step, 1000);
    image[y * width + x] = make_uchar4(i & 255, i >> 2 & 255, 255 - (i & 255), 255);
}

extern "C" __global__ void monte_carlo_pi(unsigned long long* hits, unsigned seed, int samples) {
    unsigned inside = 0, counter = blockIdx.x * blockDim.x + threadIdx.x;
    for (int s = 0; s < samples; ++s) {
        unsigned a = counter, b = s, k = seed;
#pragma unroll
        for (int r = 0; r < 7; ++r) {
            unsigned high = __umulhi(0xd256d193u, a), low = 0xd256d193u * a;
            a = high ^ k ^ b; b = low; k += 0x9e3779b9u;
        }
        float x = a * 2.3283064e-10f, y = b * 2.3283064e-10f;
        inside += x * x + y * y <= 1.0f;
    }
    inside = __reduce_add_sync(0xffffffff, inside);
    if ((threadIdx.x & 31) == 0) atomicAdd(hits, (unsigned long long)inside);
}

extern "C" __global__ void kahan_sum(const float* in, float* out, int n) {
    float sum = 0, lost = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float y = __fsub_rn(in[i], lost), t = __fadd_rn(sum, y);
        lost = __fsub_rn(__fsub_rn(t, sum), y);
        sum = t;
    }
    out[threadIdx.x] = sum;
}
