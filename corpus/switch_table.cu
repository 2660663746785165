// Multi-way branches: dense switches (brx.idx), sparse switches, nested loops with break, continue and goto.
// oriole: arch=compute_80 options=--jump-table-density=50
// oriole: arch=compute_100 options=--jump-table-density=50
// oriole: arch=compute_90 options=-G tag=debug

extern "C" __global__ void tiny_interpreter(const unsigned char* code, const int* in, int* out, int length) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int a = in[t], b = t, acc = 0;
    for (int pc = 0; pc < length; ++pc) {
        switch (code[pc]) {
            case 0: a += b; break;
            case 1: a -= b; break;
            case 2: a *= b; break;
            case 3: b = a ^ (b << 3); break;
            case 4: acc += a; break;
            case 5: if (a < 0) pc += 2; break;
            case 6: { int s = a; a = b; b = s; break; }
            case 7: out[t] = acc; break;
            case 8: acc = __popc(a); break;
            case 9: a = in[(t + b) & 1023]; break;
            case 10: b = ~b; [[fallthrough]];
            case 11: acc = max(acc, b); break;
            default: out[t] = -1; return;
        }
    }
    out[t] = a + acc;
}

extern "C" __global__ void sparse_switch(const int* in, float* out) {
    int t = threadIdx.x;
    float r;
    switch (in[t]) {
        case -1000: r = 1.5f; break;
        case 3: r = sinf(t); break;
        case 77: case 78: r = t * 2.0f; break;
        case 1 << 20: r = out[t + 1]; break;
        default: r = 0;
    }
    out[t] = r;
}

extern "C" __global__ void tangled_loops(const int* grid, int* out, int rows, int columns) {
    int t = threadIdx.x, found = -1;
    for (int r = t; r < rows; r += blockDim.x) {
        for (int c = 0; c < columns; ++c) {
            int v = grid[r * columns + c];
            if (v == 0) continue;
            if (v < 0) break;
            if (v == t) { found = r * columns + c; goto done; }
            while (v > 100) { v -= grid[v % columns]; if (v & 1) break; }
            out[r] += v;
        }
    }
done:
    out[rows + t] = found;
}
