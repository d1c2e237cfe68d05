// Keeps the GPU busy while monitors look at it: 256 MiB of VRAM, and kernels until the end of the input.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <thread>

#include <unistd.h>

static void check(hipError_t result) {
    if (result != hipSuccess) {
        fprintf(stderr, "%s\n", hipGetErrorString(result));
        // The thread below has the lock of the input, which exit() waits for.
        _exit(1);
    }
}

__global__ void work(unsigned* out, unsigned rounds) {
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x, value = at;
    for (unsigned round = 0; round < rounds; round++) value = value * 1664525u + 1013904223u;
    out[at] = value;
}

int main() {
    std::thread([] {
        while (getchar() != EOF) {
        }
        _exit(0);
    }).detach();
    unsigned* out = nullptr;
    check(hipMalloc((void**)&out, 256 << 20));
    for (bool told = false;; told = true) {
        for (int launch = 0; launch < 4; launch++) work<<<64, 256>>>(out, 20000);
        check(hipGetLastError());
        check(hipDeviceSynchronize());
        if (!told) {
            puts("busy");
            fflush(stdout);
        }
    }
}
