// The code object that the cases of modules.hip load at run time.
#include <hip/hip_runtime.h>

__device__ unsigned int factor = 3;
__constant__ unsigned int offset = 1000;

extern "C" __global__ void scale(unsigned int* words, unsigned int count) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) words[i] = words[i] * factor + offset;
}

extern "C" __global__ void __launch_bounds__(128) reverse(unsigned int* words) {
    extern __shared__ unsigned int tile[];
    tile[threadIdx.x] = words[threadIdx.x];
    __syncthreads();
    words[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
