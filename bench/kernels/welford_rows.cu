// kernel-test 1
// about: mean and variance of rows in double by Welford's update, joined across threads
// kernel: welford_rows
// grid: 1024 1 1
// block: 128 1 1
// param x: f32[2097152] = sized:208
// param y: f64[2048] = zero
// expect y: exact = ?*2048

// oriole: arch=compute_80
extern "C" __global__ void welford_rows(const float *x, double *y)
{
    __shared__ double shared[3][4];
    double mean = 0, squares = 0, count = 0;
    for (int i = threadIdx.x; i < 2048; i += 128) {
        double v = x[blockIdx.x * 2048 + i], difference = v - mean;
        count += 1;
        mean += difference / count;
        squares += difference * (v - mean);
    }
    for (int step = 16; step; step /= 2) {
        double other = __shfl_down_sync(~0u, mean, step), rest = __shfl_down_sync(~0u, squares, step), more = __shfl_down_sync(~0u, count, step);
        double difference = other - mean, all = count + more;
        mean += difference * more / all;
        squares += rest + difference * difference * count * more / all;
        count = all;
    }
    if (threadIdx.x % 32 == 0) {
        shared[0][threadIdx.x / 32] = mean;
        shared[1][threadIdx.x / 32] = squares;
        shared[2][threadIdx.x / 32] = count;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 4; i++) {
            double difference = shared[0][i] - mean, more = shared[2][i], all = count + more;
            mean += difference * more / all;
            squares += shared[1][i] + difference * difference * count * more / all;
            count = all;
        }
        y[blockIdx.x * 2] = mean;
        y[blockIdx.x * 2 + 1] = squares / count;
    }
}
