// Where data lives: constant banks, initialised globals, local arrays with dynamic index, generic pointers, volatile.
// oriole: arch=compute_80
// oriole: arch=compute_90 options=-G tag=debug

__constant__ float filter[25];
__constant__ struct { int width, height; float gain; char name[8]; } settings = {640, 480, 0.5f, "corpus"};
__device__ int counters[4] = {1, 2, 3};
__device__ const unsigned primes[] = {2, 3, 5, 7, 11, 13, 17, 19};
__device__ double golden = 1.6180339887498949;
__device__ int* pointer_to_counter = &counters[2];
static __device__ volatile int flag;
__managed__ int shared_with_host = 5;

extern "C" __global__ void constant_filter(const float* in, float* out) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < 2 || y < 2 || x >= settings.width - 2 || y >= settings.height - 2) return;
    float sum = 0;
    for (int j = 0; j < 5; ++j)
        for (int i = 0; i < 5; ++i) sum += filter[j * 5 + i] * in[(y + j - 2) * settings.width + x + i - 2];
    out[y * settings.width + x] = sum * settings.gain + settings.name[x & 7];
}

extern "C" __global__ void global_variables(int* out) {
    int t = threadIdx.x;
    out[t] = counters[t & 3] + primes[t & 7] + (int)golden + *pointer_to_counter + shared_with_host;
    counters[t & 3] = t;
    flag = t;
    while (flag == 0) { }
    *(volatile int*)&out[0] = flag;
}

extern "C" __global__ void local_array(const int* in, int* out, int steps) {
    int stack[64];
    int top = 0;
    for (int i = 0; i < 64; ++i) stack[i] = in[i] ^ threadIdx.x;
    for (int s = 0; s < steps; ++s) {
        int v = in[s & 255];
        if (v & 1) stack[top++ & 63] = v;
        else v = stack[--top & 63];
        stack[v & 63] += s;
    }
    out[threadIdx.x] = stack[top & 63];
}

extern "C" __global__ void generic_pointers(int* global_data, int choose) {
    __shared__ int in_shared[32];
    int in_local[8] = {choose, 1, 2, 3, 4, 5, 6, 7};
    in_shared[threadIdx.x] = threadIdx.x;
    __syncthreads();
    int* p = choose == 0 ? global_data : choose == 1 ? in_shared : in_local;
    p[threadIdx.x & 7] += 5;
    __syncthreads();
    global_data[threadIdx.x] = in_local[choose & 7] + in_shared[31 - threadIdx.x];
    atomicAdd(p, 1);
}
