// kernel-test 1
// about: points inside a polygon of 64 corners, by crossings
// kernel: points_in_polygon
// grid: 1024 1 1
// block: 256 1 1
// param points: f32[524288] = sized:229
// param corners: f32[128] = sized:230
// param inside: u32[8192] = zero
// expect inside: exact = ?*8192

// oriole: arch=compute_80
extern "C" __global__ void points_in_polygon(const float2 *points, const float2 *corners, unsigned *inside)
{
    __shared__ float2 polygon[64];
    if (threadIdx.x < 64)
        polygon[threadIdx.x] = corners[threadIdx.x];
    __syncthreads();
    unsigned at = blockIdx.x * 256 + threadIdx.x;
    float2 p = points[at];
    bool is_inside = false;
    float2 last = polygon[63];
#pragma unroll 4
    for (int i = 0; i < 64; i++) {
        float2 corner = polygon[i];
        if ((corner.y > p.y) != (last.y > p.y) && p.x < (last.x - corner.x) * (p.y - corner.y) / (last.y - corner.y) + corner.x)
            is_inside = !is_inside;
        last = corner;
    }
    unsigned mask = __ballot_sync(~0u, is_inside);
    if (threadIdx.x % 32 == 0)
        inside[at / 32] = mask;
}
