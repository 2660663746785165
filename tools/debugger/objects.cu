// Variables in memory: a structure and an array on the stack, an array in shared memory, and parameters.
struct Pair
{
    int a;
    float b;
};

__device__ __noinline__ int sum_of(int x)
{
    int local[8];
    for (int i = 0; i < 8; i++)
        local[i] = 3 * i * x;
    int sum = 0;
    for (int i = 0; i < 8; i += 3)
        sum += local[(i + x) & 7];
    return sum;
}

__device__ __noinline__ void fill(Pair *p, int t)
{
    p->a = t;
    p->b = 0.5f * t;
}

extern "C" __global__ void objects(int *out, const int *in, int n)
{
    __shared__ int shared[32];
    int t = threadIdx.x;
    shared[t] = in[t];
    __syncthreads();
    Pair q;
    fill(&q, t);
    int v = sum_of(t) - q.a;
    double d = v * 2.0 + shared[t ^ 1];
    out[t] = (int)d + n;
}
