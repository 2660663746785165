// Neural-network rows: softmax with running maximum, layer normalisation, GELU; fast math as a second flavour.
// oriole: arch=compute_90
// oriole: arch=compute_80 options=--use_fast_math tag=fast_math
// oriole: arch=compute_90 options="-lineinfo --use_fast_math" tag=lineinfo

__device__ float block_reduce(float v, float* scratch, bool maximum) {
    for (int o = 16; o; o >>= 1) {
        float w = __shfl_xor_sync(0xffffffff, v, o);
        v = maximum ? fmaxf(v, w) : v + w;
    }
    if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = v;
    __syncthreads();
    v = scratch[0];
    for (int i = 1; i < blockDim.x / 32; ++i) v = maximum ? fmaxf(v, scratch[i]) : v + scratch[i];
    __syncthreads();
    return v;
}

extern "C" __global__ void softmax_rows(const float* __restrict__ in, float* __restrict__ out, int columns) {
    __shared__ float scratch[32];
    in += (size_t)blockIdx.x * columns;
    out += (size_t)blockIdx.x * columns;
    float top = -__int_as_float(0x7f800000);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) top = fmaxf(top, in[i]);
    top = block_reduce(top, scratch, true);
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(in[i] - top);
    sum = block_reduce(sum, scratch, false);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) out[i] = expf(in[i] - top) / sum;
}

extern "C" __global__ void layer_norm(const float* in, const float* gamma, const float* beta, float* out, int columns,
                                      float epsilon) {
    __shared__ float scratch[32];
    const float* row = in + blockIdx.x * columns;
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) { sum += row[i]; squares += row[i] * row[i]; }
    float mean = block_reduce(sum, scratch, false) / columns;
    float variance = block_reduce(squares, scratch, false) / columns - mean * mean;
    float inverse = rsqrtf(variance + epsilon);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        out[blockIdx.x * columns + i] = (row[i] - mean) * inverse * gamma[i] + beta[i];
}

extern "C" __global__ void gelu_tanh(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = x[i];
        x[i] = 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
    }
}
