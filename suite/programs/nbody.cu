// Bodies that attract one another: steps of leapfrog with tiles in shared memory, in float and, as a template, in double.
#include "../timing.h"

template <class T> struct Body {
    T x, y, z, mass;
};

template <class T> __host__ __device__ inline void attract(const Body<T> &own, const Body<T> &other, T &ax, T &ay, T &az)
{
    T dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
    T square = dx * dx + dy * dy + dz * dz + T(0.01);
    T inverse = T(1) / sqrt(square), scale = other.mass * inverse * inverse * inverse;
    ax += dx * scale;
    ay += dy * scale;
    az += dz * scale;
}

template <class T, int TILE> __global__ void accelerate(const Body<T> *bodies, Body<T> *speeds, int n, T step)
{
    __shared__ Body<T> tile[TILE];
    int at = blockIdx.x * TILE + threadIdx.x;
    Body<T> own = bodies[at];
    T ax = 0, ay = 0, az = 0;
    for (int start = 0; start < n; start += TILE) {
        tile[threadIdx.x] = bodies[start + threadIdx.x];
        __syncthreads();
#pragma unroll 4
        for (int i = 0; i < TILE; i++)
            attract(own, tile[i], ax, ay, az);
        __syncthreads();
    }
    speeds[at].x += ax * step;
    speeds[at].y += ay * step;
    speeds[at].z += az * step;
}

template <class T> __global__ void move(Body<T> *bodies, const Body<T> *speeds, T step)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    bodies[at].x += speeds[at].x * step;
    bodies[at].y += speeds[at].y * step;
    bodies[at].z += speeds[at].z * step;
}

template <class T> void simulate(const char *name, int n, double relative)
{
    suite::Random random(71);
    std::vector<Body<T>> bodies(n), speeds(n);
    for (auto &body : bodies)
        body = {T(random.between(-1, 1)), T(random.between(-1, 1)), T(random.between(-1, 1)), T(random.between(0.1f, 1) / n)};
    suite::Device<Body<T>> positions(bodies), velocities(speeds);
    const T step = T(0.01);
    for (int i = 0; i < 2; i++) {
        accelerate<T, 128><<<n / 128, 128>>>(positions.data(), velocities.data(), n, step);
        move<T><<<n / 128, 128>>>(positions.data(), velocities.data(), step);
        std::vector<Body<T>> old = bodies;
        for (int j = 0; j < n; j++) {
            T ax = 0, ay = 0, az = 0;
            for (int k = 0; k < n; k++)
                attract(old[j], old[k], ax, ay, az);
            speeds[j].x += ax * step, speeds[j].y += ay * step, speeds[j].z += az * step;
            bodies[j].x += speeds[j].x * step, bodies[j].y += speeds[j].y * step, bodies[j].z += speeds[j].z * step;
        }
    }
    std::vector<T> got(n * 4), expected(n * 4);
    auto result = velocities.host();
    memcpy(got.data(), result.data(), n * sizeof(Body<T>));
    memcpy(expected.data(), speeds.data(), n * sizeof(Body<T>));
    suite::close(name, got, expected, relative, relative);
    suite::timed(name, [&] { accelerate<T, 128><<<n / 128, 128>>>(positions.data(), velocities.data(), n, step); });
}

int main()
{
    simulate<float>("float", 4096, 1e-4);
    simulate<double>("double", 2048, 1e-9);
    return suite::finish();
}
