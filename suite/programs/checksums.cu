// CRC-32, Adler-32, FNV-1a and XXH32 of many records: tables in constant memory, 64-bit remainders, bytes.
#include "../timing.h"

__constant__ uint32_t table[256];

__global__ void crc32(const unsigned char *data, const int *starts, uint32_t *out, int records)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= records)
        return;
    uint32_t sum = ~0u;
    for (int i = starts[at]; i < starts[at + 1]; i++)
        sum = sum >> 8 ^ table[(sum ^ data[i]) & 255];
    out[at] = ~sum;
}

__host__ __device__ inline uint32_t adler(const unsigned char *data, int count)
{
    uint32_t a = 1, b = 0;
    for (int i = 0; i < count; i++) {
        a = (a + data[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

__host__ __device__ inline uint64_t fnv(const unsigned char *data, int count)
{
    uint64_t sum = 0xcbf29ce484222325ull;
    for (int i = 0; i < count; i++)
        sum = (sum ^ data[i]) * 0x100000001b3ull;
    return sum;
}

__host__ __device__ inline uint32_t rotate(uint32_t v, int by) { return v << by | v >> (32 - by); }

__host__ __device__ inline uint32_t word(const unsigned char *p) { return p[0] | p[1] << 8 | p[2] << 16 | uint32_t(p[3]) << 24; }

__host__ __device__ inline uint32_t xxhash(const unsigned char *p, int count)
{
    const uint32_t p1 = 2654435761u, p2 = 2246822519u, p3 = 3266489917u, p4 = 668265263u, p5 = 374761393u;
    uint32_t h = p5;
    int at = 0;
    if (count >= 16) {
        uint32_t s[4] = {p1 + p2, p2, 0, 0 - p1};
        for (; at + 16 <= count; at += 16)
            for (int i = 0; i < 4; i++)
                s[i] = rotate(s[i] + word(p + at + i * 4) * p2, 13) * p1;
        h = rotate(s[0], 1) + rotate(s[1], 7) + rotate(s[2], 12) + rotate(s[3], 18);
    }
    h += count;
    for (; at + 4 <= count; at += 4)
        h = rotate(h + word(p + at) * p3, 17) * p4;
    for (; at < count; at++)
        h = rotate(h + p[at] * p5, 11) * p1;
    h = (h ^ h >> 15) * p2;
    h = (h ^ h >> 13) * p3;
    return h ^ h >> 16;
}

template <class T, T (*F)(const unsigned char *, int)> __global__ void each(const unsigned char *data, const int *starts, T *out, int records)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < records)
        out[at] = F(data + starts[at], starts[at + 1] - starts[at]);
}

int main()
{
    const int records = 1 << 14;
    suite::Random random(171);
    std::vector<int> starts(records + 1);
    std::vector<unsigned char> data;
    for (int i = 0; i < records; i++) {
        for (int n = random.below(200); n >= 0; n--)
            data.push_back(random.bits());
        starts[i + 1] = data.size();
    }
    uint32_t crc_table[256];
    for (uint32_t i = 0; i < 256; i++) {
        crc_table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            crc_table[i] = crc_table[i] & 1 ? crc_table[i] >> 1 ^ 0xedb88320u : crc_table[i] >> 1;
    }
    CHECK(cudaMemcpyToSymbol(table, crc_table, sizeof crc_table));
    std::vector<uint32_t> crc(records), adlers(records), xx(records);
    std::vector<uint64_t> fnvs(records);
    for (int i = 0; i < records; i++) {
        const unsigned char *p = &data[starts[i]];
        int count = starts[i + 1] - starts[i];
        uint32_t sum = ~0u;
        for (int k = 0; k < count; k++)
            sum = sum >> 8 ^ crc_table[(sum ^ p[k]) & 255];
        crc[i] = ~sum, adlers[i] = adler(p, count), fnvs[i] = fnv(p, count), xx[i] = xxhash(p, count);
    }
    const unsigned char abc[4] = {'a', 'b', 'c', 0};
    suite::equal("XXH32 of abc", xxhash(abc, 3), 0x32d153ffu);
    suite::Device<unsigned char> in(data);
    suite::Device<int> places(starts);
    suite::Device<uint32_t> out(records);
    suite::Device<uint64_t> wide(records);
    auto a = [&] { crc32<<<records / 128, 128>>>(in, places, out, records); };
    auto b = [&] { each<uint32_t, adler><<<records / 128, 128>>>(in, places, out, records); };
    auto c = [&] { each<uint64_t, fnv><<<records / 128, 128>>>(in, places, wide, records); };
    auto d = [&] { each<uint32_t, xxhash><<<records / 128, 128>>>(in, places, out, records); };
    a();
    suite::equal("CRC-32", out.host(), crc);
    b();
    suite::equal("Adler-32", out.host(), adlers);
    c();
    suite::equal("FNV-1a", wide.host(), fnvs);
    d();
    suite::equal("XXH32", out.host(), xx);
    suite::timed("crc32", a);
    suite::timed("adler", b);
    suite::timed("fnv", c);
    suite::timed("xxhash", d);
    return suite::finish();
}
