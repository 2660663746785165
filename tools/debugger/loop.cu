// Loop counters and other variables that change.
__device__ __noinline__ int sum_to(int n)
{
    int total = 0;
    for (int k = 1; k <= n; k++)
        total += k;
    return total;
}

extern "C" __global__ void loop(int *out, const int *in, int n)
{
    float scale = 1;
    int t = threadIdx.x;
    int s = 0;
    int acc = 0;
    int best = -1;
    for (int i = 0; i < n; i++) {
        int v = in[i];
        acc += v;
        if (v % 3 == 1)
            best = i;
        scale *= 1.5f;
    }
    s = sum_to(n);
    while (s > 3)
        s -= 7;
    out[t] = acc + best + s + (int)scale;
}
