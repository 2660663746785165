// kernel-test 1
// about: a sparse matrix of dense blocks of 4 by 4 times a vector
// kernel: spmv_blocks
// grid: 512 1 1
// block: 128 1 1
// param values: f32[4194304] = sized:148
// param columns: u32[262144] = random:149
// param x: f32[65536] = sized:150
// param y: f32[65536] = zero
// expect y: exact = ?*65536

// oriole: arch=compute_80
// Four threads for each row of blocks, one for each row inside.
extern "C" __global__ void spmv_blocks(const float4 *values, const unsigned *columns, const float4 *x, float *y)
{
    unsigned row = blockIdx.x * 128 + threadIdx.x, group = row / 4, line = row % 4;
    float sum = 0;
#pragma unroll 4
    for (int i = 0; i < 16; i++) {
        float4 block = values[(group * 16 + i) * 4 + line], part = x[columns[group * 16 + i] & 16383];
        sum += block.x * part.x + block.y * part.y + block.z * part.z + block.w * part.w;
    }
    y[row] = sum;
}
