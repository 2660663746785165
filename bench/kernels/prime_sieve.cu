// kernel-test 1
// about: counts divisors with loops of different length
// kernel: prime_sieve
// grid: 264 1 1
// block: 128 1 1
// param out: u32[33792] = zero
// expect out: exact = ?*33792

// oriole: arch=compute_80
extern "C" __global__ void prime_sieve(unsigned *out)
{
    unsigned n = blockIdx.x * blockDim.x + threadIdx.x + 2, found = 0;
    for (unsigned d = 2; d * d <= n; d++)
        if (n % d == 0) {
            found = d;
            break;
        }
    out[n - 2] = found;
}
