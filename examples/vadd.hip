// Adds two vectors of a million floats on the GPU and checks every element.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void vadd(const float *a, const float *b, float *sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) sum[i] = a[i] + b[i];
}

static void check(hipError_t error) {
    if (error == hipSuccess) return;
    std::fprintf(stderr, "%s\n", hipGetErrorString(error));
    std::exit(1);
}

int main() {
    const int n = 1 << 20;
    const size_t bytes = n * sizeof(float);
    std::vector<float> a(n), b(n), sum(n);
    for (int i = 0; i < n; i++) a[i] = i, b[i] = 2.0f * i;

    float *on_gpu[3];
    for (float *&buffer : on_gpu) check(hipMalloc(&buffer, bytes));
    check(hipMemcpy(on_gpu[0], a.data(), bytes, hipMemcpyHostToDevice));
    check(hipMemcpy(on_gpu[1], b.data(), bytes, hipMemcpyHostToDevice));
    vadd<<<n / 256, 256>>>(on_gpu[0], on_gpu[1], on_gpu[2], n);
    check(hipGetLastError());
    check(hipMemcpy(sum.data(), on_gpu[2], bytes, hipMemcpyDeviceToHost));
    for (float *buffer : on_gpu) check(hipFree(buffer));

    for (int i = 0; i < n; i++) {
        if (sum[i] == a[i] + b[i]) continue;
        std::printf("element %d is %g, not %g\n", i, sum[i], a[i] + b[i]);
        return 1;
    }
    hipDeviceProp_t gpu;
    check(hipGetDeviceProperties(&gpu, 0));
    std::printf("%d sums are right on %s\n", n, gpu.gcnArchName);
}
