// CUB inside kernels: block sort, block scan, block reduction and warp reduction, and a radix sort of the whole device.
// suite: needs=cub/cub.cuh
#include "../timing.h"

#include <cub/cub.cuh>

__global__ void sort_blocks(const uint32_t *in, uint32_t *out)
{
    typedef cub::BlockRadixSort<uint32_t, 128, 4> Sort;
    __shared__ typename Sort::TempStorage storage;
    uint32_t keys[4];
    for (int i = 0; i < 4; i++)
        keys[i] = in[blockIdx.x * 512 + threadIdx.x * 4 + i];
    Sort(storage).Sort(keys);
    for (int i = 0; i < 4; i++)
        out[blockIdx.x * 512 + threadIdx.x * 4 + i] = keys[i];
}

__global__ void scan_blocks(const uint32_t *in, uint32_t *out, uint32_t *totals)
{
    typedef cub::BlockScan<uint32_t, 128> Scan;
    __shared__ typename Scan::TempStorage storage;
    uint32_t v[4], total;
    for (int i = 0; i < 4; i++)
        v[i] = in[blockIdx.x * 512 + threadIdx.x * 4 + i];
    Scan(storage).ExclusiveSum(v, v, total);
    for (int i = 0; i < 4; i++)
        out[blockIdx.x * 512 + threadIdx.x * 4 + i] = v[i];
    if (threadIdx.x == 0)
        totals[blockIdx.x] = total;
}

__global__ void reduce_blocks(const uint32_t *in, uint32_t *sums, uint32_t *warps)
{
    typedef cub::BlockReduce<uint32_t, 128> Reduce;
    typedef cub::WarpReduce<uint32_t> Warp;
    __shared__ typename Reduce::TempStorage storage;
    __shared__ typename Warp::TempStorage warp_storage[4];
    uint32_t v = in[blockIdx.x * 128 + threadIdx.x], all = Reduce(storage).Sum(v), part = Warp(warp_storage[threadIdx.x / 32]).Sum(v);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = all;
    if (threadIdx.x % 32 == 0)
        warps[blockIdx.x * 4 + threadIdx.x / 32] = part;
}

int main()
{
    const int n = 1 << 17;
    auto words = suite::words(n, 391), blocks = words, whole = words;
    std::vector<uint32_t> scanned(n), totals(n / 512), sums(n / 128), warps(n / 32);
    for (int i = 0; i < n; i += 512)
        std::sort(blocks.begin() + i, blocks.begin() + i + 512);
    std::sort(whole.begin(), whole.end());
    for (int i = 0; i < n; i++) {
        scanned[i] = totals[i / 512];
        totals[i / 512] += words[i];
        sums[i / 128] += words[i];
        warps[i / 32] += words[i];
    }
    suite::Device<uint32_t> in(words), out(n), total(n / 512), sum(n / 128), warp(n / 32);
    auto sort = [&] { sort_blocks<<<n / 512, 128>>>(in, out); };
    auto scan = [&] { scan_blocks<<<n / 512, 128>>>(in, out, total); };
    auto reduce = [&] { reduce_blocks<<<n / 128, 128>>>(in, sum, warp); };
    sort();
    suite::equal("sorted blocks", out.host(), blocks);
    scan();
    suite::equal("scanned blocks", out.host(), scanned);
    suite::equal("totals", total.host(), totals);
    reduce();
    suite::equal("sums", sum.host(), sums);
    suite::equal("warps", warp.host(), warps);
    size_t bytes = 0;
    CHECK(cub::DeviceRadixSort::SortKeys(nullptr, bytes, in.data(), out.data(), n));
    suite::Device<unsigned char> scratch(bytes);
    auto device = [&] { CHECK(cub::DeviceRadixSort::SortKeys(scratch.data(), bytes, in.data(), out.data(), n)); };
    device();
    suite::equal("sorted", out.host(), whole);
    suite::timed("sort_blocks", sort);
    suite::timed("scan_blocks", scan);
    suite::timed("reduce_blocks", reduce);
    suite::timed("device_sort", device);
    return suite::finish();
}
