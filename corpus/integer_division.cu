// Integer division and remainder in every width and sign, by variables and by constants; modular arithmetic.
// oriole: arch=compute_80

template <typename T>
__device__ __forceinline__ void divide_all(T a, T b, T* out) {
    out[0] = a / b;
    out[1] = a % b;
    out[2] = a / T(7);
    out[3] = a % T(10);
    out[4] = a / T(16);
    out[5] = a % T(64);
    out[6] = a / T(100) + b % T(3);
}

extern "C" __global__ void divide_narrow(const signed char* s8, const unsigned char* u8, const short* s16,
                                         const unsigned short* u16, signed char* o8, unsigned char* p8, short* o16,
                                         unsigned short* p16) {
    int t = threadIdx.x;
    divide_all(s8[t], s8[t + 1], o8 + 7 * t);
    divide_all(u8[t], u8[t + 1], p8 + 7 * t);
    divide_all(s16[t], s16[t + 1], o16 + 7 * t);
    divide_all(u16[t], u16[t + 1], p16 + 7 * t);
}

extern "C" __global__ void divide_wide(const int* s32, const unsigned* u32, const long long* s64,
                                       const unsigned long long* u64, int* o32, unsigned* p32, long long* o64,
                                       unsigned long long* p64) {
    int t = threadIdx.x;
    divide_all(s32[t], s32[t + 1], o32 + 7 * t);
    divide_all(u32[t], u32[t + 1], p32 + 7 * t);
    divide_all(s64[t], s64[t + 1], o64 + 7 * t);
    divide_all(u64[t], u64[t + 1], p64 + 7 * t);
}

// Greatest common divisor and modular power: data-dependent loops around division.
extern "C" __global__ void number_theory(const unsigned* a, const unsigned* b, unsigned* gcd_out, unsigned* power_out,
                                         unsigned modulus) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x = a[t], y = b[t];
    while (y) { unsigned r = x % y; x = y; y = r; }
    gcd_out[t] = x;
    unsigned long long base = a[t] % modulus, result = 1;
    for (unsigned e = b[t]; e; e >>= 1) {
        if (e & 1) result = result * base % modulus;
        base = base * base % modulus;
    }
    power_out[t] = (unsigned)result;
}
