// kernel-test 1
// about: forces between 8192 bodies, tiles of bodies in shared memory
// kernel: nbody
// grid: 64 1 1
// block: 128 1 1
// param bodies: f32[32768] = sized:13
// param forces: f32[32768] = zero
// param n: u32 = 2000
// expect forces: exact = ?*32768

// oriole: arch=compute_80
extern "C" __global__ void nbody(const float4 *bodies, float4 *forces, unsigned n)
{
    __shared__ float4 tile[128];
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    float4 own = bodies[at], force = make_float4(0, 0, 0, 0);
    for (unsigned start = 0; start < n; start += 128) {
        tile[threadIdx.x] = bodies[start + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int i = 0; i < 128; i++) {
            float4 other = tile[i];
            float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
            float square = dx * dx + dy * dy + dz * dz + 0.01f;
            float inverse = rsqrtf(square);
            float scale = other.w * inverse * inverse * inverse;
            force.x += dx * scale;
            force.y += dy * scale;
            force.z += dz * scale;
        }
        __syncthreads();
    }
    forces[at] = force;
}
