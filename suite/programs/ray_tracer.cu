// A recursive ray tracer: device functions that call themselves, classes with operators, and divergence.
#include "../timing.h"

struct Vector {
    float x, y, z;
    __host__ __device__ Vector operator+(Vector o) const { return {x + o.x, y + o.y, z + o.z}; }
    __host__ __device__ Vector operator-(Vector o) const { return {x - o.x, y - o.y, z - o.z}; }
    __host__ __device__ Vector operator*(float s) const { return {x * s, y * s, z * s}; }
    __host__ __device__ float dot(Vector o) const { return x * o.x + y * o.y + z * o.z; }
    __host__ __device__ Vector unit() const { return *this * (1.0f / sqrtf(dot(*this))); }
};

struct Sphere {
    Vector center, color;
    float radius, mirror;
    // The distance along the ray, or a negative number.
    __host__ __device__ float hit(Vector from, Vector along) const
    {
        Vector to = center - from;
        float middle = to.dot(along), under = middle * middle - to.dot(to) + radius * radius;
        if (under < 0)
            return -1;
        float root = sqrtf(under);
        return middle - root > 1e-3f ? middle - root : middle + root > 1e-3f ? middle + root : -1;
    }
};

const int SPHERES = 24;

__host__ __device__ Vector trace(const Sphere *spheres, Vector from, Vector along, int depth)
{
    float nearest = 1e30f;
    int found = -1;
    for (int i = 0; i < SPHERES; i++) {
        float t = spheres[i].hit(from, along);
        if (t > 0 && t < nearest) {
            nearest = t;
            found = i;
        }
    }
    if (found < 0)
        return Vector{0.5f, 0.6f, 0.8f} * (0.6f + 0.4f * along.y);
    const Sphere &sphere = spheres[found];
    Vector at = from + along * nearest, normal = (at - sphere.center).unit(), light = Vector{1, 2, -1.5f}.unit();
    float shade = 0.1f;
    bool dark = false;
    for (int i = 0; i < SPHERES && !dark; i++)
        dark = i != found && spheres[i].hit(at, light) > 0;
    if (!dark)
        shade += 0.9f * fmaxf(0.0f, normal.dot(light));
    Vector color = sphere.color * shade;
    if (depth > 0 && sphere.mirror > 0) {
        Vector away = along - normal * (2 * along.dot(normal));
        color = color * (1 - sphere.mirror) + trace(spheres, at, away, depth - 1) * sphere.mirror;
    }
    return color;
}

__host__ __device__ Vector pixel(const Sphere *spheres, int x, int y, int size)
{
    Vector along = Vector{(x + 0.5f) / size * 2 - 1, 1 - (y + 0.5f) / size * 2, 1.5f}.unit();
    return trace(spheres, {0, 0, -6}, along, 4);
}

__global__ void render(const Sphere *spheres, Vector *image, int size)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < size && y < size)
        image[y * size + x] = pixel(spheres, x, y, size);
}

int main()
{
    const int size = 256;
    // The depth of the recursion is not known to the assembler.
    CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 8192));
    suite::Random random(11);
    std::vector<Sphere> spheres(SPHERES);
    for (Sphere &sphere : spheres) {
        sphere.center = {random.between(-3, 3), random.between(-3, 3), random.between(-1, 4)};
        sphere.color = {random.uniform(), random.uniform(), random.uniform()};
        sphere.radius = random.between(0.3f, 0.9f);
        sphere.mirror = random.below(2) ? 0.4f : 0.0f;
    }
    suite::Device<Sphere> scene(spheres);
    suite::Device<Vector> image(size * size);
    auto launch = [&] { render<<<dim3(size / 16, size / 16), dim3(16, 16)>>>(scene, image, size); };
    launch();
    auto got = image.host();
    // Rays along edges may go either way, so a few pixels may differ from the CPU's.
    int wrong = 0;
    double sum = 0;
    for (int i = 0; i < size * size; i++) {
        Vector want = pixel(spheres.data(), i % size, i / size, size), off = got[i] - want;
        wrong += !(off.dot(off) < 1e-4f);
        sum += got[i].x + got[i].y + got[i].z;
    }
    printf("mean %.3f\n", sum / (3 * size * size));
    if (wrong > 100) {
        printf("%d pixels wrong\n", wrong);
        suite::failed() = true;
    }
    fprintf(stderr, "bits image %016llx\n", (unsigned long long)suite::hash(got));
    suite::timed("render", launch);
    return suite::finish();
}
