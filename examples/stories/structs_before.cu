// kernel-test 1
// about: scales one field of an array of structures of eight words
// kernel: scale_field
// grid: 8192 1 1
// block: 256 1 1
// param points: f32[16777216] = sized:1
// param out: f32[2097152] = zero
// expect out: exact = ?*2097152

// oriole: arch=compute_80 options="-lineinfo"
struct Point {
    float x, y, z, mass, u, v, w, charge;
};

extern "C" __global__ void scale_field(const Point *points, float *out)
{
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    out[i] = 0.5f * points[i].mass + 1.0f;
}
