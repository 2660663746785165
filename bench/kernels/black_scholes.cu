// kernel-test 1
// about: prices of options
// kernel: black_scholes
// grid: 1056 1 1
// block: 256 1 1
// param price: f32[1081344] = sized:14
// param strike: f32[1081344] = sized:15
// param years: f32[1081344] = sized:16
// param call: f32[1081344] = zero
// param put: f32[1081344] = zero
// param n: u32 = 108000
// expect call: exact = ?*1081344
// expect put: exact = ?*1081344

// oriole: arch=compute_80
__device__ float normal(float d)
{
    float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    float sum = 0.39894228040143267794f * expf(-0.5f * d * d)
        * (k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
    return d > 0 ? 1.0f - sum : sum;
}

extern "C" __global__ void black_scholes(const float *price, const float *strike, const float *years, float *call, float *put, unsigned n)
{
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float s = fabsf(price[i]), x = fabsf(strike[i]), t = fabsf(years[i]);
        const float rate = 0.02f, volatility = 0.30f;
        float root = sqrtf(t);
        float d1 = (logf(s / x) + (rate + 0.5f * volatility * volatility) * t) / (volatility * root);
        float d2 = d1 - volatility * root;
        float a = normal(d1), b = normal(d2), discounted = x * expf(-rate * t);
        call[i] = s * a - discounted * b;
        put[i] = discounted * (1.0f - b) - s * (1.0f - a);
    }
}
