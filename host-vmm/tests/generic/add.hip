// Adds three to each number. For whole families of chips, in compressed bundles; with hipcc 6.4.3 (clang 21) of Debian sid:
// hipcc -O2 --offload-arch=gfx11-generic --genco --offload-compress add.hip -o add.gfx11-generic.co
#include <hip/hip_runtime.h>

extern "C" __global__ void add(int* numbers, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) numbers[i] += 3;
}
