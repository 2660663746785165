// A race between a store and a load of shared memory, and a read of memory that nobody wrote.
extern "C" __global__ void race(int *out, const int *in, int n)
{
    __shared__ int part[64];
    part[threadIdx.x] = in[threadIdx.x] + n;
    out[threadIdx.x & 31] = part[threadIdx.x ^ 32];
}

extern "C" __global__ void uninitialized(int *out, const int *in, int n)
{
    int old = out[threadIdx.x];
    out[threadIdx.x] = old + in[0] + n;
}
