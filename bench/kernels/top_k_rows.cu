// kernel-test 1
// about: the eight largest of each row of 1024, with a list in registers for each lane
// kernel: top_k_rows
// grid: 512 1 1
// block: 128 1 1
// param x: f32[2097152] = sized:209
// param values: f32[16384] = zero
// param places: u32[16384] = zero
// expect values: exact = ?*16384
// expect places: exact = ?*16384

// oriole: arch=compute_80
extern "C" __global__ void top_k_rows(const float *x, float *values, unsigned *places)
{
    unsigned row = (blockIdx.x * 128 + threadIdx.x) / 32, lane = threadIdx.x % 32;
    float best[8];
    unsigned at[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        best[i] = -1e30f;
        at[i] = ~0u;
    }
    for (unsigned i = lane; i < 1024; i += 32) {
        float v = x[row * 1024 + i];
        unsigned place = i;
        if (v > best[7]) {
            // Insertion into a sorted list.
#pragma unroll
            for (int k = 0; k < 8; k++)
                if (v > best[k]) {
                    float old = best[k];
                    unsigned from = at[k];
                    best[k] = v;
                    at[k] = place;
                    v = old;
                    place = from;
                }
        }
    }
#pragma unroll 1
    for (int k = 0; k < 8; k++) {
        float most = best[0];
        unsigned place = at[0];
        for (int step = 16; step; step /= 2) {
            float other = __shfl_xor_sync(~0u, most, step);
            unsigned with = __shfl_xor_sync(~0u, place, step);
            if (other > most || (other == most && with < place)) {
                most = other;
                place = with;
            }
        }
        if (at[0] == place) {
#pragma unroll
            for (int i = 0; i < 7; i++) {
                best[i] = best[i + 1];
                at[i] = at[i + 1];
            }
            best[7] = -1e30f;
            at[7] = ~0u;
        }
        if (lane == 0) {
            values[row * 8 + k] = most;
            places[row * 8 + k] = place;
        }
    }
}
