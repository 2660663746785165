// Work on text: words are counted, a pattern is searched, letters are changed, numbers are parsed and printed.
#include "../timing.h"

__host__ __device__ inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

__global__ void count_words(const char *text, int n, unsigned *count)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    bool begins = at < n && is_letter(text[at]) && (at == 0 || !is_letter(text[at - 1]));
    unsigned votes = __ballot_sync(~0u, begins);
    if (threadIdx.x % 32 == 0)
        atomicAdd(count, __popc(votes));
}

__global__ void find(const char *text, int n, const char *pattern, int length, int *places, unsigned *count)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at + length > n)
        return;
    for (int i = 0; i < length; i++)
        if (pattern[i] != '?' && text[at + i] != pattern[i])
            return;
    places[atomicAdd(count, 1u)] = at;
}

__host__ __device__ inline char swapped(char c)
{
    switch (c) {
    case 'a': return '4';
    case 'e': return '3';
    case 'i': return '1';
    case 'o': return '0';
    case ' ': return '_';
    case '\n': return ' ';
    default: return c >= 'a' && c <= 'z' ? c - 32 : c >= 'A' && c <= 'Z' ? c + 32 : c;
    }
}

__global__ void change(const char *text, char *out, int n)
{
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += gridDim.x * blockDim.x)
        out[at] = swapped(text[at]);
}

// Numbers in fields of 12 characters: parsed, squared modulo 10^9, and printed again.
__host__ __device__ inline void square_field(const char *in, char *out)
{
    long long value = 0;
    bool negative = false;
    for (int i = 0; i < 12; i++) {
        if (in[i] == '-')
            negative = true;
        else if (in[i] >= '0' && in[i] <= '9')
            value = value * 10 + in[i] - '0';
    }
    long long result = (negative ? -value : value) * 7 % 1000000000;
    bool below = result < 0;
    unsigned long long rest = below ? -result : result;
    for (int i = 11; i >= 0; i--) {
        bool is_digit = i == 11 || rest;
        out[i] = is_digit ? '0' + rest % 10 : below ? '-' : ' ';
        if (!is_digit)
            below = false;
        rest /= 10;
    }
}

__global__ void square_fields(const char *in, char *out, int count)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count)
        square_field(in + at * 12, out + at * 12);
}

int main()
{
    const int n = 1 << 20, fields = 1 << 15;
    suite::Random random(271);
    std::vector<char> text(n), changed(n), numbers(fields * 12), squares(fields * 12);
    for (char &c : text)
        c = "etaoin shrdluETAN .\n"[random.below(20)];
    for (int i = 0; i < fields; i++) {
        char field[16];
        snprintf(field, sizeof field, "%12d", int(random.bits()));
        memcpy(&numbers[i * 12], field, 12);
        square_field(&numbers[i * 12], &squares[i * 12]);
    }
    const char pattern[] = {'t', 'h', '?', 's'};
    unsigned words = 0;
    std::vector<int> places;
    for (int i = 0; i < n; i++) {
        words += is_letter(text[i]) && (i == 0 || !is_letter(text[i - 1]));
        changed[i] = swapped(text[i]);
        if (i + 4 <= n && text[i] == 't' && text[i + 1] == 'h' && text[i + 3] == 's')
            places.push_back(i);
    }
    suite::Device<char> in(text), out(n), key(std::vector<char>(pattern, pattern + 4)), number(numbers), square(fields * 12);
    suite::Device<unsigned> counts(2);
    suite::Device<int> found(n);
    count_words<<<n / 256, 256>>>(in, n, counts);
    find<<<n / 256, 256>>>(in, n, key, 4, found, counts + 1);
    auto got = counts.host();
    suite::equal("words", got[0], words);
    auto where = found.host();
    where.resize(std::min(got[1], unsigned(n)));
    std::sort(where.begin(), where.end());
    suite::equal("places", where, places);
    change<<<256, 256>>>(in, out, n);
    suite::equal("changed", out.host(), changed);
    square_fields<<<fields / 128, 128>>>(number, square, fields);
    suite::equal("numbers", square.host(), squares);
    suite::timed("words", [&] { count_words<<<n / 256, 256>>>(in, n, counts); });
    suite::timed("change", [&] { change<<<256, 256>>>(in, out, n); });
    suite::timed("numbers", [&] { square_fields<<<fields / 128, 128>>>(number, square, fields); });
    return suite::finish();
}
