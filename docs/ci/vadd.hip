// Adds two vectors on the GPU; exits with 1 if a sum is wrong.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>

__global__ void add(const float *a, const float *b, float *sum, int count)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count)
        sum[at] = a[at] + b[at];
}

static void check(hipError_t error)
{
    if (error != hipSuccess) {
        std::fprintf(stderr, "%s\n", hipGetErrorString(error));
        std::exit(1);
    }
}

int main()
{
    const int count = 1 << 20;
    const size_t bytes = count * sizeof(float);
    std::vector<float> a(count), b(count), sum(count);
    for (int at = 0; at < count; at++) {
        a[at] = at;
        b[at] = 2 * at;
    }
    float *gpu[3];
    for (float *&buffer : gpu)
        check(hipMalloc(&buffer, bytes));
    check(hipMemcpy(gpu[0], a.data(), bytes, hipMemcpyHostToDevice));
    check(hipMemcpy(gpu[1], b.data(), bytes, hipMemcpyHostToDevice));
    add<<<(count + 255) / 256, 256>>>(gpu[0], gpu[1], gpu[2], count);
    check(hipMemcpy(sum.data(), gpu[2], bytes, hipMemcpyDeviceToHost));
    for (float *buffer : gpu)
        check(hipFree(buffer));
    for (int at = 0; at < count; at++)
        if (sum[at] != a[at] + b[at])
            return 1;
    std::printf("%d sums are right\n", count);
    return 0;
}
