// kernel-test 1
// about: products of rows of two dense matrices where a pattern has an element
// kernel: sddmm
// grid: 1024 1 1
// block: 256 1 1
// param rows: u32[65536] = random:151
// param columns: u32[65536] = random:152
// param a: f32[524288] = sized:153
// param b: f32[524288] = sized:154
// param out: f32[65536] = zero
// expect out: exact = ?*65536

// oriole: arch=compute_80
// Four threads for each element.
extern "C" __global__ void sddmm(const unsigned *rows, const unsigned *columns, const float4 *a, const float4 *b, float *out)
{
    unsigned thread = blockIdx.x * 256 + threadIdx.x, at = thread / 4, lane = thread % 4;
    const float4 *u = a + (rows[at] & 8191) * 16, *v = b + (columns[at] & 8191) * 16;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float4 p = u[i * 4 + lane], q = v[i * 4 + lane];
        sum += p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (lane == 0)
        out[at] = sum;
}
