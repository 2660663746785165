// kernel-test 1
// about: the same in f64
// kernel: mandelbrot_double
// grid: 32 32 1
// block: 16 16 1
// param out: u32[262144] = zero
// param limit: u32 = 80
// expect out: exact = ?*262144

// oriole: arch=compute_80
extern "C" __global__ void mandelbrot_double(unsigned *out, unsigned limit)
{
    unsigned column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    double cx = column * (3.0 / 512) - 2.0, cy = row * (2.5 / 512) - 1.25, x = 0, y = 0;
    unsigned count = 0;
    while (count < limit && x * x + y * y < 4.0) {
        double next = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = next;
        count++;
    }
    out[row * 512 + column] = count;
}
