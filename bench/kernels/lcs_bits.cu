// kernel-test 1
// about: longest common subsequences by bits: sums with carries over four words of 64
// kernel: lcs_bits
// grid: 256 1 1
// block: 128 1 1
// param texts: u8[4194304] = random:222
// param pattern: u8[256] = random:223
// param lengths: u32[32768] = zero
// expect lengths: exact = ?*32768

// oriole: arch=compute_80
typedef unsigned long long Word;

extern "C" __global__ void lcs_bits(const unsigned char *texts, const unsigned char *pattern, unsigned *lengths)
{
    __shared__ Word masks[4][4];
    if (threadIdx.x < 16) {
        Word mask = 0;
        for (int i = 0; i < 64; i++)
            mask |= (Word)((pattern[threadIdx.x % 4 * 64 + i] & 3) == threadIdx.x / 4) << i;
        masks[threadIdx.x / 4][threadIdx.x % 4] = mask;
    }
    __syncthreads();
    unsigned at = blockIdx.x * 128 + threadIdx.x;
    Word v[4] = {~0ull, ~0ull, ~0ull, ~0ull};
    for (int i = 0; i < 128; i++) {
        unsigned letter = texts[i * 32768 + at] & 3;
        Word carry = 0;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            Word same = v[k] & masks[letter][k], sum = v[k] + same, over = sum < same;
            sum += carry;
            over |= sum < carry;
            v[k] = sum | (v[k] & ~same);
            carry = over;
        }
    }
    lengths[at] = 256 - (__popcll(v[0]) + __popcll(v[1]) + __popcll(v[2]) + __popcll(v[3]));
}
