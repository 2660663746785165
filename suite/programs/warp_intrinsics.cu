// Operations of warps: votes, matches, all kinds of shuffles, reductions, byte and bit intrinsics, and partial warps.
#include "../timing.h"

__global__ void votes(const uint32_t *x, uint4 *out)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t v = x[at], key = v & 3;
    uint32_t ballot = __ballot_sync(~0u, v & 4), match = __match_any_sync(~0u, key);
    int is_all = 0;
    uint32_t whole = __match_all_sync(~0u, v >> 31, &is_all);
    uint32_t flags = __any_sync(~0u, v % 97 == 0) | __all_sync(~0u, v % 97 != 1) << 1 | is_all << 2;
    out[at] = make_uint4(ballot, match, flags, whole);
}

__global__ void shuffles(const uint32_t *x, uint32_t *out)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    uint32_t v = x[at], sum = 0;
    sum += __shfl_sync(~0u, v, v & 31) * 3;
    sum += __shfl_up_sync(~0u, v, 5) * 5;
    sum += __shfl_down_sync(~0u, v, 7, 16) * 7;
    sum += __shfl_xor_sync(~0u, v, 9) * 11;
    unsigned long long wide = __shfl_sync(~0u, (unsigned long long)v << 20 | lane, 31 - lane);
    sum ^= (uint32_t)wide ^ (uint32_t)(wide >> 32);
    sum += __reduce_add_sync(~0u, v) + __reduce_min_sync(~0u, v) + __reduce_max_sync(~0u, v);
    sum ^= __reduce_and_sync(~0u, v | 0xff) + __reduce_or_sync(~0u, v & 0xff) + __reduce_xor_sync(~0u, v);
    out[at] = sum;
}

__host__ __device__ inline uint32_t swap_bytes(uint32_t v) { return v >> 24 | (v >> 8 & 0xff00) | (v << 8 & 0xff0000) | v << 24; }

__global__ void bits(const uint32_t *x, uint32_t *out)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t v = x[at], w = x[at ^ 1];
    uint32_t sum = __popc(v) + __clz(v) * 3 + __ffs(v) * 5 + __popcll((unsigned long long)v << 32 | w) * 7 + __clzll(w) * 9;
    sum ^= __brev(v) + __byte_perm(v, w, 0x0123) + __funnelshift_l(v, w, v & 31) + __funnelshift_r(v, w, w & 31);
    sum += __umulhi(v, w) ^ (uint32_t)__mulhi((int)v, (int)w) ^ (uint32_t)__umul64hi((unsigned long long)v << 32, (unsigned long long)w << 32);
    sum ^= __vadd4(v, w) + __vmaxs2(v, w) + __vabsdiffu4(v, w) + __sad((int)v, (int)w, 17u) + __uhadd(v, w);
    out[at] = sum;
}

// Threads of a warp go different ways and meet again.
__global__ void partial(const uint32_t *x, uint32_t *out)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    uint32_t v = x[at], result;
    if (lane < 12)
        result = __shfl_xor_sync(0x00000fff, v, 3) + __reduce_add_sync(0x00000fff, v & 0xff);
    else if (lane % 2)
        result = __shfl_sync(0xaaaaa000, v, 31) ^ __ballot_sync(0xaaaaa000, v & 1);
    else
        result = __match_any_sync(0x55555000, v & 7);
    __syncwarp();
    out[at] = result + __shfl_sync(~0u, result, 0);
}

int main()
{
    const int n = 1 << 16;
    auto x = suite::words(n, 341);
    std::vector<uint32_t> flat(n * 4), mixed(n), counted(n), parts(n);
    for (int base = 0; base < n; base += 32) {
        const uint32_t *w = &x[base];
        uint32_t add = 0, least = ~0u, most = 0, all = ~0u, any = 0, parity = 0, ballot = 0, low = 0, odd = 0, match[4] = {}, groups[8] = {};
        bool has = false, none = true, same = true;
        for (int i = 0; i < 32; i++) {
            add += w[i], least = std::min(least, w[i]), most = std::max(most, w[i]), all &= w[i] | 0xff, any |= w[i] & 0xff, parity ^= w[i];
            ballot |= uint32_t((w[i] & 4) != 0) << i;
            match[w[i] & 3] |= 1u << i;
            has |= w[i] % 97 == 0, none &= w[i] % 97 != 1, same &= w[i] >> 31 == w[0] >> 31;
            if (i < 12)
                low += w[i] & 0xff;
            else if (i % 2)
                odd |= (w[i] & 1) << i;
            else
                groups[w[i] & 7] |= 1u << i;
        }
        for (int i = 0; i < 32; i++) {
            uint32_t v = w[i], sum = w[v & 31] * 3 + w[i < 5 ? i : i - 5] * 5 + w[i % 16 + 7 < 16 ? i + 7 : i] * 7 + w[i ^ 9] * 11;
            uint64_t wide = uint64_t(w[31 - i]) << 20 | (31 - i);
            sum ^= uint32_t(wide) ^ uint32_t(wide >> 32);
            sum += add + least + most;
            mixed[base + i] = sum ^ (all + any + parity);
            uint32_t four[4] = {ballot, match[v & 3], uint32_t(has) | uint32_t(none) << 1 | uint32_t(same) << 2, same ? ~0u : 0};
            memcpy(&flat[(base + i) * 4], four, 16);
            parts[base + i] = i < 12 ? w[i ^ 3] + low : i % 2 ? w[31] ^ odd : groups[v & 7];
        }
        uint32_t first = parts[base];
        for (int i = 0; i < 32; i++)
            parts[base + i] += first;
    }
    for (int i = 0; i < n; i++) {
        uint32_t v = x[i], w = x[i ^ 1], reversed = 0, add4 = 0, max2 = 0, diff4 = 0;
        for (int k = 0; k < 32; k++)
            reversed |= (v >> k & 1) << (31 - k);
        for (int k = 0; k < 32; k += 8) {
            int a = v >> k & 255, b = w >> k & 255;
            add4 |= uint32_t((a + b) & 255) << k;
            diff4 |= uint32_t(abs(a - b)) << k;
        }
        for (int k = 0; k < 32; k += 16)
            max2 |= uint32_t((unsigned short)std::max(short(v >> k), short(w >> k))) << k;
        uint64_t left = uint64_t(w) << 32 | v;
        uint32_t sum = __builtin_popcount(v) + (v ? __builtin_clz(v) : 32) * 3 + __builtin_ffs(v) * 5
            + (__builtin_popcount(v) + __builtin_popcount(w)) * 7 + (w ? 32 + __builtin_clz(w) : 64) * 9;
        sum ^= reversed + swap_bytes(v) + uint32_t((left << (v & 31)) >> 32) + uint32_t(left >> (w & 31));
        sum += uint32_t(uint64_t(v) * w >> 32) ^ uint32_t((int64_t(int(v)) * int(w)) >> 32)
            ^ uint32_t(((unsigned __int128)(uint64_t(v) << 32) * (uint64_t(w) << 32)) >> 64);
        int64_t difference = int64_t(int(v)) - int(w);
        sum ^= add4 + max2 + diff4 + uint32_t((difference < 0 ? -difference : difference) + 17) + uint32_t((uint64_t(v) + w) >> 1);
        counted[i] = sum;
    }
    suite::Device<uint32_t> in(x), out(n);
    suite::Device<uint4> fours(n);
    auto a = [&] { votes<<<n / 128, 128>>>(in, fours); };
    auto b = [&] { shuffles<<<n / 128, 128>>>(in, out); };
    auto c = [&] { bits<<<n / 128, 128>>>(in, out); };
    auto d = [&] { partial<<<n / 128, 128>>>(in, out); };
    a();
    auto raw = fours.host();
    std::vector<uint32_t> got(n * 4);
    memcpy(got.data(), raw.data(), n * 16);
    suite::equal("votes", got, flat);
    b();
    suite::equal("shuffles", out.host(), mixed);
    c();
    suite::equal("bits", out.host(), counted);
    d();
    suite::equal("partial", out.host(), parts);
    suite::timed("votes", a);
    suite::timed("shuffles", b);
    suite::timed("bits", c);
    suite::timed("partial", d);
    return suite::finish();
}
