// Kernel parameters and attributes: large structs by value, arrays, packed fields, no parameters, register caps.
// oriole: arch=compute_80

struct Big { int header[4]; double matrix[8][8]; unsigned char bytes[37]; short tail; };
struct __attribute__((packed)) Packed { char a; int b; short c; long long d; char e[3]; };
struct Flags { unsigned low : 5, middle : 11, high : 16; signed int sign : 3; };
union Bits { float f; unsigned u; };
struct Empty {};

extern "C" __global__ void big_parameters(Big a, const __grid_constant__ Big b, int index, double* out) {
    double sum = 0;
    for (int i = 0; i < 8; ++i) sum += a.matrix[i][index & 7] * b.matrix[index & 7][i];
    out[threadIdx.x] = sum + a.bytes[index % 37] + b.tail + a.header[threadIdx.x & 3];
}

extern "C" __global__ void packed_fields(const Packed* in, Packed* out, Flags* flags, Bits* bits, Packed by_value, Empty, bool yes, char c) {
    int i = threadIdx.x;
    Packed p = in[i];
    p.b += p.a + by_value.c;
    p.d ^= by_value.d;
    p.e[i % 3] = c;
    out[i] = p;
    flags[i].middle = flags[i].low * 3;
    flags[i].sign = flags[i].high & 7;
    bits[i].u ^= yes ? 0x80000000u : 0;
    if (bits[i].f > 1) bits[i].f = 1;
}

extern "C" __global__ void __launch_bounds__(1024, 1) no_parameters() {}

extern "C" __global__ void __maxnreg__(32) register_cap(const float* in, float* out) {
    float v[48];
#pragma unroll
    for (int i = 0; i < 48; ++i) v[i] = in[threadIdx.x + i * 32];
#pragma unroll
    for (int r = 0; r < 3; ++r)
#pragma unroll
        for (int i = 0; i < 48; ++i) v[i] = v[i] * v[(i + 7) % 48] + v[(i + 31) % 48];
#pragma unroll
    for (int i = 0; i < 48; ++i) out[threadIdx.x + i * 32] = v[i];
}

extern "C" __global__ void many_scalars(char a, unsigned char b, short c, unsigned short d, int e, unsigned f, long long g,
                                        unsigned long long h, float i, double j, float2 k, int3 l, double4 m, void* out) {
    *(double*)out = a + b + c + d + e + f + g + h + i + j + k.y + l.z + m.w;
}
