// kernel-test 1
// about: sorts 16 words in registers of a thread by an odd-even merge network
// kernel: sort_registers
// grid: 512 1 1
// block: 128 1 1
// param x: u32[1048576] = random:161
// param y: u32[1048576] = zero
// expect y: exact = ?*1048576

// oriole: arch=compute_80
extern "C" __global__ void sort_registers(const uint4 *x, uint4 *y)
{
    unsigned at = blockIdx.x * 128 + threadIdx.x, v[16];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint4 four = x[at * 4 + i];
        v[i * 4] = four.x;
        v[i * 4 + 1] = four.y;
        v[i * 4 + 2] = four.z;
        v[i * 4 + 3] = four.w;
    }
#pragma unroll
    for (int p = 1; p < 16; p *= 2)
#pragma unroll
        for (int k = p; k >= 1; k /= 2)
#pragma unroll
            for (int j = k % p; j + k < 16; j += 2 * k)
#pragma unroll
                for (int i = 0; i < k; i++)
                    if (i + j + k < 16 && (i + j) / (2 * p) == (i + j + k) / (2 * p)) {
                        unsigned a = v[i + j], b = v[i + j + k];
                        v[i + j] = min(a, b);
                        v[i + j + k] = max(a, b);
                    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        y[at * 4 + i] = make_uint4(v[i * 4], v[i * 4 + 1], v[i * 4 + 2], v[i * 4 + 3]);
}
