// Assignments under a guard: the asm statements change x, y and w only where the predicate holds.
extern "C" __global__ void guard(int *out, const int *in, int n)
{
    int t = threadIdx.x;
    int x = in[t];
    long long y = 1000 + t;
    float w = 0.5f;
    for (int i = 0; i < n; i++) {
        asm volatile("{ .reg .pred p; setp.lt.s32 p, %1, 2; @p add.s32 %0, %0, 100; }" : "+r"(x) : "r"(i));
        asm volatile("{ .reg .pred p; setp.ge.s32 p, %1, 2; @p add.s64 %0, %0, 7; }" : "+l"(y) : "r"(i));
        asm volatile("{ .reg .pred p; setp.eq.s32 p, %1, 1; @p mov.f32 %0, 0f40200000; }" : "+f"(w) : "r"(i));
        out[t] = x + (int)y;
    }
    out[t] += (int)w;
}
