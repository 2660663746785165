// kernel-test 1
// about: CRC-32 of blocks of 64 bytes with four tables that each block computes in shared memory
// kernel: crc32_tables
// grid: 512 1 1
// block: 256 1 1
// param input: u32[2097152] = random:115
// param sums: u32[131072] = zero
// expect sums: exact = ?*131072

// oriole: arch=compute_80
extern "C" __global__ void crc32_tables(const unsigned *input, unsigned *sums)
{
    __shared__ unsigned table[4][256];
    unsigned value = threadIdx.x;
    for (int bit = 0; bit < 8; bit++)
        value = value & 1 ? value >> 1 ^ 0xedb88320u : value >> 1;
    table[0][threadIdx.x] = value;
    __syncthreads();
    for (int i = 1; i < 4; i++) {
        unsigned last = table[i - 1][threadIdx.x];
        table[i][threadIdx.x] = last >> 8 ^ table[0][last & 255];
        __syncthreads();
    }
    unsigned at = blockIdx.x * 256 + threadIdx.x, sum = ~0u;
    for (int i = 0; i < 16; i++) {
        sum ^= input[at * 16 + i];
        sum = table[3][sum & 255] ^ table[2][sum >> 8 & 255] ^ table[1][sum >> 16 & 255] ^ table[0][sum >> 24];
    }
    sums[at] = ~sum;
}
