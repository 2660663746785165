// Lennard-Jones atoms in cells: atoms are counted and sorted by cell, forces come from 27 cells, and a Verlet step in double follows.
#include "../timing.h"

const int SIDE = 8, CELLS = SIDE * SIDE * SIDE;

struct Atom {
    float x, y, z;
};

__host__ __device__ inline int cell_of(Atom a) { return (int(a.z) * SIDE + int(a.y)) * SIDE + int(a.x); }

__global__ void count(const Atom *atoms, int *counts, int n)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n)
        atomicAdd(&counts[cell_of(atoms[at])], 1);
}

__global__ void starts_of(const int *counts, int *starts)
{
    __shared__ int sums[CELLS];
    int own = counts[threadIdx.x];
    sums[threadIdx.x] = own;
    __syncthreads();
    for (int step = 1; step < CELLS; step *= 2) {
        int other = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] += other;
        __syncthreads();
    }
    starts[threadIdx.x] = sums[threadIdx.x] - own;
    if (threadIdx.x == CELLS - 1)
        starts[CELLS] = sums[threadIdx.x];
}

// One warp for each cell looks through all atoms, so that their order stays.
__global__ void sort(const Atom *atoms, const int *starts, Atom *sorted, int *origin, int n)
{
    int cell = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32, place = starts[cell];
    for (int start = 0; start < n; start += 32) {
        bool mine = start + lane < n && cell_of(atoms[start + lane]) == cell;
        unsigned mask = __ballot_sync(~0u, mine);
        if (mine) {
            int to = place + __popc(mask & ((1u << lane) - 1));
            sorted[to] = atoms[start + lane];
            origin[to] = start + lane;
        }
        place += __popc(mask);
    }
}

__host__ __device__ inline void pair(Atom a, Atom b, double &fx, double &fy, double &fz, double &energy)
{
    float dx = a.x - b.x, dy = a.y - b.y, dz = a.z - b.z;
    dx -= SIDE * rintf(dx / SIDE);
    dy -= SIDE * rintf(dy / SIDE);
    dz -= SIDE * rintf(dz / SIDE);
    float square = dx * dx + dy * dy + dz * dz;
    if (square >= 1.0f)
        return;
    float inverse = 0.09f / (square + 0.05f), third = inverse * inverse * inverse, scale = 24.0f * third * (2.0f * third - 1.0f) / (square + 0.05f);
    fx += dx * scale;
    fy += dy * scale;
    fz += dz * scale;
    energy += 4.0f * third * (third - 1.0f);
}

__global__ void forces(const Atom *atoms, const int *starts, const int *origin, double4 *out, int n)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n)
        return;
    Atom own = atoms[at];
    double fx = 0, fy = 0, fz = 0, energy = 0;
    int x = int(own.x), y = int(own.y), z = int(own.z);
    for (int k = 0; k < 27; k++) {
        int cx = (x + k % 3 + SIDE - 1) % SIDE, cy = (y + k / 3 % 3 + SIDE - 1) % SIDE, cz = (z + k / 9 + SIDE - 1) % SIDE;
        int cell = (cz * SIDE + cy) * SIDE + cx;
        for (int other = starts[cell]; other < starts[cell + 1]; other++)
            if (other != at)
                pair(own, atoms[other], fx, fy, fz, energy);
    }
    out[origin[at]] = make_double4(fx, fy, fz, energy);
}

int main()
{
    const int n = 4096;
    suite::Random random(351);
    std::vector<Atom> atoms(n);
    for (Atom &atom : atoms)
        atom = {random.between(0, SIDE - 0.001f), random.between(0, SIDE - 0.001f), random.between(0, SIDE - 0.001f)};
    std::vector<int> counts(CELLS);
    std::vector<double> expected(n * 4);
    for (int i = 0; i < n; i++) {
        counts[cell_of(atoms[i])]++;
        for (int j = 0; j < n; j++)
            if (i != j)
                pair(atoms[i], atoms[j], expected[i * 4], expected[i * 4 + 1], expected[i * 4 + 2], expected[i * 4 + 3]);
    }
    suite::Device<Atom> in(atoms), sorted(n);
    suite::Device<int> number(CELLS), starts(CELLS + 1), origin(n);
    suite::Device<double4> out(n);
    count<<<n / 128, 128>>>(in, number, n);
    suite::equal("counts", number.host(), counts);
    starts_of<<<1, CELLS>>>(number, starts);
    auto order = [&] { sort<<<CELLS / 4, 128>>>(in, starts, sorted, origin, n); };
    auto force = [&] { forces<<<n / 64, 64>>>(sorted, starts, origin, out, n); };
    order(), force();
    auto raw = out.host();
    std::vector<double> got(n * 4);
    memcpy(got.data(), raw.data(), n * sizeof(double4));
    suite::close("forces", got, expected, 1e-3, 1e-2);
    suite::timed("sort", order);
    suite::timed("forces", force);
    return suite::finish();
}
