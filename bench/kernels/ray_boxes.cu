// kernel-test 1
// about: rays through a tree of 1023 boxes with a stack in local memory
// kernel: ray_boxes
// grid: 512 1 1
// block: 128 1 1
// param boxes: f32[8192] = sized:119
// param rays: f32[393216] = sized:120
// param counts: u32[65536] = zero
// expect counts: exact = ?*65536

// oriole: arch=compute_80
// Boxes in the order of a heap: the children of box i are 2 i + 1 and 2 i + 2. A box has a center and half sizes.
extern "C" __global__ void ray_boxes(const float4 *boxes, const float *rays, unsigned *counts)
{
    unsigned at = blockIdx.x * 128 + threadIdx.x, found = 0;
    const float *ray = rays + at * 6;
    float ox = ray[0], oy = ray[1], oz = ray[2], ix = 1.0f / ray[3], iy = 1.0f / ray[4], iz = 1.0f / ray[5];
    short stack[16];
    int top = 0, node = 0;
    for (;;) {
        float4 center = boxes[node * 2], half = boxes[node * 2 + 1];
        float hx = fabsf(half.x) * 0.6f, hy = fabsf(half.y) * 0.6f, hz = fabsf(half.z) * 0.6f;
        float x0 = (center.x - hx - ox) * ix, x1 = (center.x + hx - ox) * ix;
        float y0 = (center.y - hy - oy) * iy, y1 = (center.y + hy - oy) * iy;
        float z0 = (center.z - hz - oz) * iz, z1 = (center.z + hz - oz) * iz;
        float enter = fmaxf(fmaxf(fminf(x0, x1), fminf(y0, y1)), fminf(z0, z1));
        float leave = fminf(fminf(fmaxf(x0, x1), fmaxf(y0, y1)), fmaxf(z0, z1));
        bool is_hit = leave >= fmaxf(enter, 0.0f) || node < 7;
        if (is_hit && node >= 511)
            found += node;
        if (is_hit && node < 511) {
            stack[top++] = 2 * node + 2;
            node = 2 * node + 1;
        } else if (top) {
            node = stack[--top];
        } else {
            break;
        }
    }
    counts[at] = found;
}
