// A program whose first workgroup stops at a debug trap.
#include <hip/hip_runtime.h>
#include <cstdio>
__global__ void kernel(int *out, int add) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = i * 3 + add;
    if (blockIdx.x == 0) asm volatile("s_trap 3");
    value += 7;
    out[i] = value;
}
int main() {
    int *out, host[64];
    if (hipMalloc(&out, sizeof host) != hipSuccess) return 2;
    kernel<<<2, 32>>>(out, 100);
    if (hipMemcpy(host, out, sizeof host, hipMemcpyDeviceToHost) != hipSuccess) return 3;
    for (int i = 0; i < 64; i++) if (host[i] != i * 3 + 107) { printf("wrong at %d: %d\n", i, host[i]); return 1; }
    puts("the sums are right");
    return 0;
}
