// kernel-test 1
// about: division and remainder of 32 and 64 bits
// kernel: integer_division
// grid: 264 1 1
// block: 256 1 1
// param x: u64[270336] = random:33
// param y: u64[270336] = sized:34
// param out: u64[270336] = zero
// param n: u32 = 42000
// expect out: exact = ?*270336

// oriole: arch=compute_80
extern "C" __global__ void integer_division(const unsigned long long *x, const unsigned long long *y, unsigned long long *out, unsigned n)
{
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned long long a = x[i], b = y[i] | 1;
        unsigned c = a, d = b >> 3 | 1;
        out[i] = a / b + a % (b | 0x100000000ull) * 3 + c / d + c % (d & 1023 | 1);
    }
}
