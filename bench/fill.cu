// oriole: arch=compute_75
// Fills a segment of a buffer as docs/kernel-tests.md says: `mode` 0 a value, 1 positions, 2 random bits, 3 floats from 1/16 to 16,
// 4 integers of random length, 5 the same with a sign. `element` is the size in bytes, `parameter` the value, or for floats the exponent
// bits of 1.0 above bit 32 and the number of fraction bits below.
__device__ unsigned long long mix(unsigned seed, unsigned long long position)
{
    unsigned long long z = ((unsigned long long)seed << 32 | position) + 1;
    z *= 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

extern "C" __global__ void fill(void *out, unsigned long long start, unsigned long long count, unsigned mode, unsigned seed, unsigned element,
    unsigned long long parameter)
{
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < count; i += (unsigned long long)gridDim.x * blockDim.x) {
        unsigned long long value = parameter;
        unsigned bits = element * 8;
        unsigned long long mask = bits == 64 ? ~0ull : (1ull << bits) - 1;
        if (mode == 1)
            value = start + i;
        if (mode == 2)
            value = mix(seed, i);
        if (mode >= 3) {
            unsigned long long random = mix(seed, i), choice = mix(~seed, i);
            if (mode == 3) {
                unsigned fraction = parameter;
                unsigned long long one = (parameter >> 32) << fraction;
                value = one - (4ull << fraction) + random % (8ull << fraction);
                if (choice & 1)
                    value |= 1ull << (bits - 1);
            } else {
                value = (random & mask) >> choice % bits;
                if (mode == 5 && choice & 0x8000)
                    value = 0 - value;
            }
        }
        unsigned long long at = start + i;
        switch (element) {
        case 1: ((unsigned char *)out)[at] = value; break;
        case 2: ((unsigned short *)out)[at] = value; break;
        case 4: ((unsigned *)out)[at] = value; break;
        default: ((unsigned long long *)out)[at] = value;
        }
    }
}
