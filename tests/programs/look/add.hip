// Adds two vectors. For debuggers: nobody says where the kernel's code object is.
#include <hip/hip_runtime.h>
#include <cstdio>

__global__ void add(const float *a, const float *b, float *c) {
  int i = threadIdx.x;
  float sum = a[i] + b[i];
  c[i] = sum;
}

int main() {
  constexpr int count = 64;
  float *a, *b, *c;
  for (float **vector : {&a, &b, &c})
    if (hipHostMalloc(vector, count * sizeof(float)) != hipSuccess) return 1;
  for (int i = 0; i < count; i++) a[i] = b[i] = i;
  add<<<1, count>>>(a, b, c);
  if (hipDeviceSynchronize() != hipSuccess) return 1;
  std::printf("%g\n", c[9]);
  return 0;
}
