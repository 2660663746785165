// A call, an inlined function, and stores behind the end of an array if n is larger than its length.
__device__ __forceinline__ void store(int *p, int i, int v)
{
    p[i] = v;
}

__device__ __noinline__ int twice(int x)
{
    return 2 * x + (int)clock() * 0;
}

extern "C" __global__ void oob(int *out, const int *in, int n)
{
    int i = threadIdx.x;
    int v = twice(i) + in[0];
    if (i < n)
        out[i] = v;
    if (n > 100)
        store(out, i * 1048576, v);
}
