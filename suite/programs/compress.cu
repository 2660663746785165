// Compression: runs of equal bytes, differences packed to the bits they need, and the way back.
#include "../timing.h"

const int BLOCK = 256;

// The inclusive sum over a block.
__device__ int scan(int value, int *warps)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int step = 1; step < 32; step *= 2) {
        int other = __shfl_up_sync(~0u, value, step);
        if (lane >= step)
            value += other;
    }
    if (lane == 31)
        warps[warp] = value;
    __syncthreads();
    for (int i = 0; i < warp; i++)
        value += warps[i];
    __syncthreads();
    return value;
}

__global__ void encode_runs(const unsigned char *x, unsigned char *values, unsigned short *ends, int *counts)
{
    __shared__ int warps[BLOCK / 32];
    int thread = threadIdx.x, base = blockIdx.x * BLOCK;
    bool is_end = thread == BLOCK - 1 || x[base + thread] != x[base + thread + 1];
    int place = scan(is_end, warps);
    if (is_end) {
        values[base + place - 1] = x[base + thread];
        ends[base + place - 1] = thread + 1;
    }
    if (thread == BLOCK - 1)
        counts[blockIdx.x] = place;
}

__global__ void decode_runs(const unsigned char *values, const unsigned short *ends, const int *counts, unsigned char *x)
{
    int base = blockIdx.x * BLOCK, low = 0, high = counts[blockIdx.x] - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (ends[base + middle] > threadIdx.x)
            high = middle;
        else
            low = middle + 1;
    }
    x[base + threadIdx.x] = values[base + low];
}

__host__ __device__ inline uint32_t zigzag(int v) { return uint32_t(v) << 1 ^ uint32_t(v >> 31); }

// A warp packs 32 numbers: the width is that of the largest difference. `packed` has a word for the first number, the width, and the bits.
__global__ void pack(const int *x, uint32_t *packed, int groups)
{
    int group = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (group >= groups)
        return;
    int own = x[group * 32 + lane], before = __shfl_up_sync(~0u, own, 1);
    uint32_t code = lane ? zigzag(own - before) : 0, all = __reduce_or_sync(~0u, code);
    int width = 32 - __clz(all);
    uint32_t *out = packed + group * 34;
    // Bit k of all codes is word k.
    for (int k = 0; k < width; k++) {
        uint32_t bits = __ballot_sync(~0u, code >> k & 1);
        if (lane == 0)
            out[2 + k] = bits;
    }
    if (lane == 0) {
        out[0] = own;
        out[1] = width;
    }
}

__global__ void unpack(const uint32_t *packed, int *x, int groups)
{
    int group = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (group >= groups)
        return;
    const uint32_t *in = packed + group * 34;
    int width = in[1];
    uint32_t code = 0;
    for (int k = 0; k < width; k++)
        code |= (in[2 + k] >> lane & 1) << k;
    int value = lane ? int(code >> 1 ^ (0 - (code & 1))) : int(in[0]);
    for (int step = 1; step < 32; step *= 2) {
        int other = __shfl_up_sync(~0u, value, step);
        if (lane >= step)
            value += other;
    }
    x[group * 32 + lane] = value;
}

int main()
{
    const int n = 1 << 20, blocks = n / BLOCK, groups = n / 32;
    suite::Random random(281);
    std::vector<unsigned char> bytes(n), values(n);
    std::vector<unsigned short> ends(n);
    std::vector<int> counts(blocks), numbers(n);
    std::vector<uint32_t> packed(groups * 34);
    for (int i = 0, left = 0; i < n; i++, left--) {
        if (left == 0)
            left = 1 + random.below(20);
        bytes[i] = i && left > 1 ? bytes[i - 1] : random.bits();
        numbers[i] = (i % 32 ? numbers[i - 1] : int(random.below(1000000))) + int(random.below(1 << i / 32 % 12)) - 5;
    }
    for (int b = 0; b < blocks; b++)
        for (int i = 0; i < BLOCK; i++)
            if (i == BLOCK - 1 || bytes[b * BLOCK + i] != bytes[b * BLOCK + i + 1]) {
                values[b * BLOCK + counts[b]] = bytes[b * BLOCK + i];
                ends[b * BLOCK + counts[b]++] = i + 1;
            }
    for (int g = 0; g < groups; g++) {
        uint32_t codes[32] = {}, all = 0;
        for (int i = 1; i < 32; i++)
            all |= codes[i] = zigzag(numbers[g * 32 + i] - numbers[g * 32 + i - 1]);
        packed[g * 34] = numbers[g * 32];
        while (all >> packed[g * 34 + 1])
            packed[g * 34 + 1]++;
        for (uint32_t k = 0; k < packed[g * 34 + 1]; k++)
            for (int i = 0; i < 32; i++)
                packed[g * 34 + 2 + k] |= (codes[i] >> k & 1) << i;
    }
    suite::Device<unsigned char> in(bytes), run_values(n), back(n);
    suite::Device<unsigned short> run_ends(n);
    suite::Device<int> run_counts(blocks), in_numbers(numbers), back_numbers(n);
    suite::Device<uint32_t> words(groups * 34);
    auto encode = [&] { encode_runs<<<blocks, BLOCK>>>(in, run_values, run_ends, run_counts); };
    auto decode = [&] { decode_runs<<<blocks, BLOCK>>>(run_values, run_ends, run_counts, back); };
    auto squeeze = [&] { pack<<<n / 128, 128>>>(in_numbers, words, groups); };
    auto expand = [&] { unpack<<<n / 128, 128>>>(words, back_numbers, groups); };
    encode(), decode(), squeeze(), expand();
    suite::equal("counts", run_counts.host(), counts);
    suite::equal("values", run_values.host(), values);
    suite::equal("ends", run_ends.host(), ends);
    suite::equal("decoded", back.host(), bytes);
    suite::equal("packed", words.host(), packed);
    suite::equal("unpacked", back_numbers.host(), numbers);
    suite::timed("encode", encode);
    suite::timed("decode", decode);
    suite::timed("pack", squeeze);
    suite::timed("unpack", expand);
    return suite::finish();
}
