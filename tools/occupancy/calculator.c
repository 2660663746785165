/* Writes what NVIDIA's occupancy calculator (cuda_occupancy.h of a CUDA toolkit) says for each compute capability, one file each, in the
 * format of crates/hardware/data/measured:
 *
 *     cc -I CUDA/include calculator.c -o calculator && ./calculator FOLDER
 *     ORIOLE_OCCUPANCY_DIR=FOLDER cargo test -p oriole-hardware calculator
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_occupancy.h>

#define KIB 1024
#define COUNT(array) (int)(sizeof(array) / sizeof(array)[0])

/* What the header wants to be told: compute capability, threads and shared memory of a multiprocessor, opt-in limit, reserved bytes.
 * From CUDA Programming Guide 13, tables 30 and 31, and CCCL's arch_traits.h. */
static const struct { int major, minor, threads, shared, opt_in, reserved; } devices[] = {
    {7, 0, 2048, 96, 96, 0},    {7, 2, 2048, 96, 96, 0},    {7, 5, 1024, 64, 64, 0},    {8, 0, 2048, 164, 163, 1},
    {8, 6, 1536, 100, 99, 1},   {8, 7, 1536, 164, 163, 1},  {8, 8, 1536, 100, 99, 1},   {8, 9, 1536, 100, 99, 1},
    {9, 0, 2048, 228, 227, 1},  {10, 0, 2048, 228, 227, 1}, {10, 3, 2048, 228, 227, 1}, {11, 0, 1536, 228, 227, 1},
    {12, 0, 1536, 100, 99, 1},  {12, 1, 1536, 100, 99, 1},
};

static const int sizes[] = {1, 32, 33, 64, 96, 100, 128, 160, 192, 256, 320, 384, 512, 576, 640, 768, 769, 896, 960, 1000, 1024};
static const int registers[] = {8, 16, 24, 32, 33, 40, 41, 48, 56, 57, 64, 65, 72, 80, 81, 96, 97, 104, 112, 128, 129, 144, 160, 168, 169,
                                192, 208, 224, 240, 255};
static const int shared[] = {0, 1, 1000, KIB, 2 * KIB, 5 * KIB, 7 * KIB, 7 * KIB + 1, 10 * KIB, 15 * KIB, 16 * KIB, 20 * KIB, 31 * KIB,
                             32 * KIB, 37 * KIB, 47 * KIB, 48 * KIB, 49 * KIB, 56 * KIB, 63 * KIB, 64 * KIB, 81 * KIB, 96 * KIB, 99 * KIB,
                             113 * KIB, 113 * KIB + 1, 131 * KIB, 163 * KIB, 195 * KIB, 227 * KIB};
static const int barriers[] = {0, 1, 2, 3, 5, 16};
static const int carve_outs[] = {-1, 0, 5, 25, 50, 75, 100};

int main(int count, char **arguments) {
    if (count != 2) return fprintf(stderr, "usage: calculator FOLDER\n"), 2;
    for (int d = 0; d < COUNT(devices); d++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/occupancy_sm_%d%d.tsv", arguments[1], devices[d].major, devices[d].minor);
        FILE *file = fopen(path, "w");
        if (!file) return perror(path), 1;
        fprintf(file, "static\tbarriers\tregisters\tdynamic\tcarve_out");
        for (int s = 0; s < COUNT(sizes); s++) fprintf(file, "\t%d", sizes[s]);
        fprintf(file, "\n");
        cudaOccDeviceProp device;
        memset(&device, 0, sizeof device);
        device.computeMajor = devices[d].major;
        device.computeMinor = devices[d].minor;
        device.maxThreadsPerBlock = 1024;
        device.maxThreadsPerMultiprocessor = devices[d].threads;
        device.regsPerBlock = device.regsPerMultiprocessor = 64 * KIB;
        device.warpSize = 32;
        device.sharedMemPerBlock = 48 * KIB;
        device.sharedMemPerMultiprocessor = devices[d].shared * KIB;
        device.numSms = 1;
        device.sharedMemPerBlockOptin = devices[d].opt_in * KIB;
        device.reservedSharedMemPerBlock = devices[d].reserved * KIB;
        for (int r = 0; r < COUNT(registers); r++)
            for (int m = 0; m < COUNT(shared); m++)
                for (int b = 0; b < COUNT(barriers); b++)
                    for (int c = 0; c < COUNT(carve_outs); c++) {
                        if (b && c && r % 5) continue;
                        int half = shared[m] / 2 < 48 * KIB ? shared[m] / 2 : 0;
                        cudaOccFuncAttributes function;
                        memset(&function, 0, sizeof function);
                        function.maxThreadsPerBlock = INT_MAX;
                        function.numRegs = registers[r];
                        function.sharedSizeBytes = half;
                        function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
                        function.maxDynamicSharedSizeBytes = shared[m] - half;
                        function.numBlockBarriers = barriers[b];
                        cudaOccDeviceState state;
                        memset(&state, 0, sizeof state);
                        state.carveoutConfig = carve_outs[c];
                        fprintf(file, "%d\t%d\t%d\t%d\t%d", half, barriers[b], registers[r], shared[m] - half, carve_outs[c]);
                        for (int s = 0; s < COUNT(sizes); s++) {
                            cudaOccResult result;
                            if (shared[m] > devices[d].opt_in * KIB) {
                                fprintf(file, "\t-");
                            } else if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, sizes[s],
                                                                              shared[m] - half) != CUDA_OCC_SUCCESS) {
                                return fprintf(stderr, "the calculator refuses %s\n", path), 1;
                            } else {
                                fprintf(file, "\t%d", result.activeBlocksPerMultiprocessor);
                            }
                        }
                        fprintf(file, "\n");
                    }
        fclose(file);
    }
    return 0;
}
