// kernel-test 1
// about: scales one field that has an array of its own
// kernel: scale_field
// grid: 8192 1 1
// block: 256 1 1
// param mass: f32[2097152] = sized:1
// param out: f32[2097152] = zero
// expect out: exact = ?*2097152

// oriole: arch=compute_80 options="-lineinfo"
extern "C" __global__ void scale_field(const float *mass, float *out)
{
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    out[i] = 0.5f * mass[i] + 1.0f;
}
