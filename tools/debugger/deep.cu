// A chain of calls, with an array on the stack of one of them.
__device__ __noinline__ int leaf(int x)
{
    int y = x * x;
    return y + (int)clock() * 0;
}

__device__ __noinline__ int middle(int x)
{
    int local[8];
    for (int i = 0; i < 8; i++)
        local[i] = x + i;
    int sum = leaf(local[x & 7]);
    sum += leaf(sum & 15);
    return sum + local[3];
}

__device__ __noinline__ int outer(int x)
{
    int a = middle(x + 1);
    return a - x;
}

extern "C" __global__ void deep(int *out, const int *in, int n)
{
    int i = threadIdx.x;
    int v = outer(i) + in[0];
    if (i < n)
        out[i] = v;
}
