// kernel-test 1
// about: seven-point stencil that walks along z with values in registers
// kernel: stencil_3d
// grid: 8 16 1
// block: 32 8 1
// param x: f32[4194304] = sized:9
// param y: f32[4194304] = zero
// expect y: exact = ?*4194304

// oriole: arch=compute_80
extern "C" __global__ void stencil_3d(const float *x, float *y)
{
    const int nx = 256, ny = 128, nz = 128;
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    int here = row * nx + column, plane = nx * ny;
    bool inside = column > 0 && column < nx - 1 && row > 0 && row < ny - 1;
    float below = x[here], middle = x[here + plane];
    for (int z = 1; z < nz - 1; z++) {
        float above = x[here + (z + 1) * plane];
        int at = here + z * plane;
        if (inside)
            y[at] = middle * -6.0f + below + above + x[at - 1] + x[at + 1] + x[at - nx] + x[at + nx];
        below = middle;
        middle = above;
    }
}
