// kernel-test 1
// about: places where a pattern of up to 16 bytes occurs, with wildcards
// kernel: string_search
// grid: 1024 1 1
// block: 256 1 1
// param text: u8[1048592] = random:227
// param pattern: u8[16] = random:228
// param found: u32[32768] = zero
// param length: u32 = 6
// expect found: exact = ?*32768

// oriole: arch=compute_80
extern "C" __global__ void string_search(const unsigned char *text, const unsigned char *pattern, unsigned *found, unsigned length)
{
    __shared__ unsigned char local[1040], wanted[16];
    unsigned start = blockIdx.x * 1024;
    for (unsigned i = threadIdx.x; i < 1040; i += 256)
        local[i] = text[start + i] & 3;
    if (threadIdx.x < 16)
        wanted[threadIdx.x] = pattern[threadIdx.x] & 7;
    __syncthreads();
    for (int k = 0; k < 4; k++) {
        unsigned at = k * 256 + threadIdx.x, i = 0;
        // Letters from 4 match everything.
        while (i < length && (wanted[i] >= 4 || wanted[i] == local[at + i]))
            i++;
        unsigned hits = __ballot_sync(~0u, i == length);
        if (threadIdx.x % 32 == 0)
            found[(start + at) / 32] = hits;
    }
}
