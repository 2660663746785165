// kernel-test 1
// about: iterations until escape, which threads of a warp do not agree on
// kernel: mandelbrot_float
// grid: 64 64 1
// block: 16 16 1
// param out: u32[1048576] = zero
// param limit: u32 = 100
// expect out: exact = ?*1048576

// oriole: arch=compute_80
extern "C" __global__ void mandelbrot_float(unsigned *out, unsigned limit)
{
    unsigned column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    float cx = column * (3.0f / 1024) - 2.0f, cy = row * (2.5f / 1024) - 1.25f, x = 0, y = 0;
    unsigned count = 0;
    while (count < limit && x * x + y * y < 4.0f) {
        float next = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = next;
        count++;
    }
    out[row * 1024 + column] = count;
}
