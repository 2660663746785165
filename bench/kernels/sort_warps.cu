// kernel-test 1
// about: sorts pairs of keys and values in warps by shuffles
// kernel: sort_warps
// grid: 2048 1 1
// block: 256 1 1
// param keys: f32[524288] = sized:162
// param values: u32[524288] = random:163
// param sorted: f32[524288] = zero
// param moved: u32[524288] = zero
// expect sorted: exact = ?*524288
// expect moved: exact = ?*524288

// oriole: arch=compute_80
extern "C" __global__ void sort_warps(const float *keys, const unsigned *values, float *sorted, unsigned *moved)
{
    unsigned at = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x % 32, value = values[at];
    float key = keys[at];
#pragma unroll
    for (unsigned size = 2; size <= 32; size *= 2)
#pragma unroll
        for (unsigned step = size / 2; step; step /= 2) {
            float other = __shfl_xor_sync(~0u, key, step);
            unsigned with = __shfl_xor_sync(~0u, value, step);
            bool is_low = (lane & step) == 0, rising = (lane & size) == 0 || size == 32;
            // Equal keys keep the smaller value first, so that the result is unique.
            bool is_less = other < key || (other == key && with < value);
            if (is_less == (is_low == rising)) {
                key = other;
                value = with;
            }
        }
    sorted[at] = key;
    moved[at] = value;
}
