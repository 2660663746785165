// Element-wise vector kernels: the plainest code there is, with and without a guard, aliasing and vector types.
// oriole: arch=compute_80
// oriole: arch=compute_120
// oriole: arch=compute_90 options=-lineinfo tag=lineinfo
// oriole: arch=compute_90 options=-G tag=debug

extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

// __restrict__ and const let the loads go through the read-only path (ld.global.nc).
extern "C" __global__ void axpby_restrict(const float* __restrict__ x, const float* __restrict__ y,
                                          float* __restrict__ out, float alpha, float beta, unsigned n) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = alpha * __ldg(x + i) + beta * y[i];
}

// 128-bit loads and stores with a scalar tail.
extern "C" __global__ void scale_float4(float4* data, float factor, size_t quads, float* tail, int tail_length) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < quads) {
        float4 v = data[i];
        v.x *= factor; v.y *= factor; v.z *= factor; v.w *= factor;
        data[i] = v;
    }
    if (blockIdx.x == 0 && threadIdx.x < tail_length) tail[threadIdx.x] *= factor;
}
