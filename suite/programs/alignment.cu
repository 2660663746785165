// Local alignment of sequences by diagonals in shared memory (Smith and Waterman), and edit distances by bits of a word (Myers).
#include "../timing.h"

const int LENGTH = 128;

__host__ __device__ inline int score(unsigned char a, unsigned char b) { return a == b ? 3 : -2; }

__global__ void align(const unsigned char *first, const unsigned char *second, int *out)
{
    __shared__ int rows[3][LENGTH + 1];
    __shared__ unsigned char text[LENGTH];
    __shared__ int best;
    int thread = threadIdx.x;
    const unsigned char *a = first + blockIdx.x * LENGTH, *b = second + blockIdx.x * LENGTH;
    text[thread] = b[thread];
    for (int i = 0; i < 3; i++) {
        rows[i][thread + 1] = 0;
        rows[i][0] = 0;
    }
    if (thread == 0)
        best = 0;
    unsigned char own = a[thread];
    int most = 0;
    __syncthreads();
    for (int diagonal = 0; diagonal < 2 * LENGTH - 1; diagonal++) {
        int *old = rows[diagonal % 3], *last = rows[(diagonal + 1) % 3], *fresh = rows[(diagonal + 2) % 3], j = diagonal - thread;
        if (j >= 0 && j < LENGTH) {
            int corner = j ? old[thread] : 0, left = j ? last[thread + 1] : 0, up = last[thread];
            int value = max(max(0, corner + score(own, text[j])), max(left, up) - 1);
            fresh[thread + 1] = value;
            most = max(most, value);
        }
        __syncthreads();
    }
    atomicMax(&best, most);
    __syncthreads();
    if (thread == 0)
        out[blockIdx.x] = best;
}

// The distance between a pattern of 64 letters and a text, with a column of the table as two words.
__host__ __device__ inline int distance(const unsigned char *pattern, const unsigned char *text)
{
    uint64_t masks[4] = {}, plus = ~0ull, minus = 0;
    for (int i = 0; i < 64; i++)
        masks[pattern[i] & 3] |= 1ull << i;
    int result = 64;
    for (int j = 0; j < 64; j++) {
        uint64_t same = masks[text[j] & 3], x = same | minus;
        uint64_t d = (((same & plus) + plus) ^ plus) | x;
        uint64_t up = minus | ~(d | plus), down = plus & d;
        result += int(up >> 63) - int(down >> 63);
        up = up << 1 | 1;
        down <<= 1;
        plus = down | ~(d | up);
        minus = up & d;
    }
    return result;
}

__global__ void distances(const unsigned char *first, const unsigned char *second, int *out, int count)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count)
        out[at] = distance(first + at * 64, second + at * 64);
}

int main()
{
    const int pairs = 256, count = pairs * LENGTH / 64;
    auto bits = suite::words(2 * pairs * LENGTH, 181);
    std::vector<unsigned char> a(pairs * LENGTH), b(pairs * LENGTH);
    for (int i = 0; i < pairs * LENGTH; i++) {
        a[i] = bits[i] & 3;
        // Similar sequences: three in four letters are the same, one place on.
        b[i] = bits[pairs * LENGTH + i] % 4 ? bits[i ? i - 1 : 0] & 3 : bits[pairs * LENGTH + i] >> 8 & 3;
    }
    std::vector<int> expected(pairs), edits(count);
    for (int p = 0; p < pairs; p++) {
        std::vector<int> row(LENGTH + 1);
        for (int i = 0; i < LENGTH; i++) {
            int corner = 0;
            for (int j = 0; j < LENGTH; j++) {
                int value = std::max(std::max(0, corner + score(a[p * LENGTH + i], b[p * LENGTH + j])), std::max(row[j + 1], row[j]) - 1);
                corner = row[j + 1];
                row[j + 1] = value;
                expected[p] = std::max(expected[p], value);
            }
        }
    }
    for (int p = 0; p < count; p++) {
        std::vector<int> row(65);
        for (int j = 0; j <= 64; j++)
            row[j] = j;
        for (int i = 0; i < 64; i++) {
            int corner = row[0];
            row[0] = i + 1;
            for (int j = 0; j < 64; j++) {
                int value = std::min(std::min(row[j], row[j + 1]) + 1, corner + (a[p * 64 + i] != b[p * 64 + j]));
                corner = row[j + 1];
                row[j + 1] = value;
            }
        }
        edits[p] = row[64];
    }
    suite::Device<unsigned char> first(a), second(b);
    suite::Device<int> scores(pairs), out(count);
    auto local = [&] { align<<<pairs, LENGTH>>>(first, second, scores); };
    auto myers = [&] { distances<<<count / 64, 64>>>(first, second, out, count); };
    local();
    suite::equal("scores", scores.host(), expected);
    myers();
    suite::equal("distances", out.host(), edits);
    suite::timed("align", local);
    suite::timed("distances", myers);
    return suite::finish();
}
