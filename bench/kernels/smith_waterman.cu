// kernel-test 1
// about: local alignment of sequences with affine gaps, a lane for each column of 32
// kernel: smith_waterman
// grid: 264 1 1
// block: 128 1 1
// param first: u8[135168] = random:220
// param second: u8[135168] = random:221
// param scores: s32[1056] = zero
// expect scores: exact = ?*1056

// oriole: arch=compute_80
// A warp aligns sequences of 128: diagonals move from lane to lane by shuffles, in four strips of 32 columns.
extern "C" __global__ void smith_waterman(const unsigned char *first, const unsigned char *second, int *scores)
{
    __shared__ int edge[4][2][128];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, pair = blockIdx.x * 4 + warp;
    const unsigned char *a = first + pair * 128, *b = second + pair * 128;
    int best = 0;
    for (int i = lane; i < 128; i += 32)
        edge[warp][0][i] = edge[warp][1][i] = 0;
    __syncwarp();
    for (int strip = 0; strip < 4; strip++) {
        int own = b[strip * 32 + lane] & 3, above = 0, up_gap = -100, h = 0, left_gap = -100, corner = 0;
        for (int step = 0; step < 128 + 31; step++) {
            int row = step - (int)lane;
            int left = __shfl_up_sync(~0u, h, 1), gap = __shfl_up_sync(~0u, left_gap, 1);
            if (lane == 0) {
                left = row < 128 ? edge[warp][0][row] : 0;
                gap = row < 128 ? edge[warp][1][row] : 0;
            }
            if (row >= 0 && row < 128) {
                left_gap = max(gap - 1, left - 4);
                up_gap = max(up_gap - 1, above - 4);
                h = max(max(0, corner + ((a[row] & 3) == own ? 3 : -2)), max(left_gap, up_gap));
                best = max(best, h);
                above = h;
                corner = left;
                if (lane == 31) {
                    edge[warp][0][row] = h;
                    edge[warp][1][row] = left_gap;
                }
            }
            __syncwarp();
        }
    }
    best = __reduce_max_sync(~0u, best);
    if (lane == 0)
        scores[pair] = best;
}
