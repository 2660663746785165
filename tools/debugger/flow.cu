// Control flow: break, continue, switch, and an array on the stack.
extern "C" __global__ void flow(int *out, const int *in, int n)
{
    double d = 0;
    int t = threadIdx.x;
    bool odd = false;
    char c = 0;
    int s = 0;
    int arr[8] = {0};
    for (int i = 0; i < n; i++) {
        arr[i & 7] = in[i];
        odd = !odd;
        d += in[i];
        if (in[i] == 10)
            continue;
        if (i > 6)
            break;
        switch (in[i]) {
        case 1:
            s += 9;
            break;
        case 7:
            c = 'c';
            break;
        case 16:
            s *= 2;
            break;
        default:
            s += arr[(i + t) & 7];
        }
    }
    out[t] = s + c + odd + (int)d;
}
