// Real calls: functions that stay out of line, structs by value, recursion, function pointers, virtual methods.
// oriole: arch=compute_80
// oriole: arch=compute_90 options=-G tag=debug
// oriole: arch=compute_90 options=-rdc=true tag=relocatable

struct Ray { float origin[3]; float direction[3]; int tag; };
struct Hit { double distance; int id; bool inside; };

__device__ __noinline__ Hit intersect(Ray ray, float radius, short id) {
    float b = 0, c = -radius * radius;
    for (int i = 0; i < 3; ++i) { b += ray.origin[i] * ray.direction[i]; c += ray.origin[i] * ray.origin[i]; }
    float d = b * b - c;
    return Hit{d < 0 ? -1.0 : (double)(-b - sqrtf(d)), id + ray.tag, c < 0};
}

extern "C" __global__ void call_with_structs(const Ray* rays, Hit* hits, float radius) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Ray r = rays[i];
    r.tag = i;
    Hit h = intersect(r, radius, (short)i);
    if (h.inside) h = intersect(r, radius * 2, 7);
    hits[i] = h;
}

__device__ __noinline__ int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

__device__ int is_odd(unsigned n);
__device__ __noinline__ int is_even(unsigned n) { return n == 0 ? 1 : is_odd(n - 1); }
__device__ __noinline__ int is_odd(unsigned n) { return n == 0 ? 0 : is_even(n - 1); }

extern "C" __global__ void recursive(int* out) {
    out[threadIdx.x] = ackermann(2, threadIdx.x & 7) + is_even(threadIdx.x);
}

typedef float (*Operation)(float, float);
__device__ __noinline__ float op_add(float a, float b) { return a + b; }
__device__ __noinline__ float op_mul(float a, float b) { return a * b; }
__device__ __noinline__ float op_pow(float a, float b) { return powf(a, b); }
__device__ Operation table[3] = {op_add, op_mul, op_pow};

extern "C" __global__ void indirect_calls(const int* which, float* data) {
    int i = threadIdx.x;
    data[i] = table[which[i] % 3](data[i], data[i + 1]);
    Operation local = which[i] & 1 ? op_add : op_mul;
    data[i + 64] = local(data[i], 2.0f);
}

struct Shape { __device__ virtual float area() const = 0; float scale; };
struct Square : Shape { float side; __device__ float area() const override { return scale * side * side; } };
struct Circle : Shape { float radius; __device__ float area() const override { return scale * 3.14159f * radius * radius; } };

extern "C" __global__ void virtual_calls(const float* in, float* out) {
    int i = threadIdx.x;
    Square square; Circle circle;
    square.scale = circle.scale = in[0];
    square.side = circle.radius = in[i];
    const Shape* shape = in[i] > 1 ? (const Shape*)&square : (const Shape*)&circle;
    out[i] = shape->area();
}
