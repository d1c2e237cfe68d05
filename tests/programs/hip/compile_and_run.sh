# Compiles a HIP program for the GPU that is there, without naming it, and runs it.
set -e
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cat > "$directory/sum.hip" <<'SOURCE'
#include <hip/hip_runtime.h>
#include <cstdio>
__global__ void sum(int* out) { out[threadIdx.x] = threadIdx.x * 3 + 1; }
int main() {
    int *device, host[1000];
    if (hipMalloc((void**)&device, sizeof host) != hipSuccess) return 1;
    sum<<<1, 1000>>>(device);
    if (hipMemcpy(host, device, sizeof host, hipMemcpyDeviceToHost) != hipSuccess) return 2;
    for (int i = 0; i < 1000; i++) if (host[i] != i * 3 + 1) return 3;
    puts("1000 sums verified");
}
SOURCE
hipcc -O1 --offload-arch=native "$directory/sum.hip" -o "$directory/sum"
"$directory/sum"
