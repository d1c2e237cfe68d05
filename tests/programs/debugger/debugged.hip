// Programs that are debugged, by name. Each ends with 0 when its results are right in spite of the debugger.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#define TRY(call) do { hipError_t e = (call); if (e != hipSuccess) { fprintf(stderr, "%s: %s\n", #call, hipGetErrorString(e)); exit(2); } } while (0)

constexpr int ADDED = 100, LANES = 32, GROUPS = 2;

__device__ int watched;

// By the calling convention of functions, the first argument is in v0, the second in v1.
extern "C" __device__ __attribute__((noinline, used)) int inner(int value, int factor) {
    return value * factor + 7;
}
extern "C" __global__ void sums(int *out, int add, int factor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = inner(i * 3 + add, factor);
}
extern "C" __global__ void trapping(int *out, int add) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = i * 3 + add;
    if (blockIdx.x == 0) asm volatile("s_trap 3");
    out[i] = value + 7;
}
extern "C" __global__ void asserting(int *out) {
    asm volatile("s_trap 2");
    out[0] = 1;
}
extern "C" __global__ void storing(int *out, int value) {
    out[threadIdx.x] = value;
    if (threadIdx.x == 0) watched = value;
    out[threadIdx.x] += 1;
}
extern "C" __global__ void violating(int *out, int *bad) {
    *bad = 1;
    out[0] = 1;
}
extern "C" __global__ void illegal(int *out) {
    // No format of this chip begins so.
    asm volatile(".long 0xffffffff");
    out[0] = 1;
}
extern "C" __global__ void spinning(volatile int *go, int *out) {
    while (!*go) __builtin_amdgcn_s_sleep(1);
    out[threadIdx.x] = threadIdx.x + 1;
}

static int *buffer() {
    int *out;
    TRY(hipMalloc(&out, GROUPS * LANES * sizeof *out));
    TRY(hipMemset(out, 0, GROUPS * LANES * sizeof *out));
    return out;
}

static int check(int *out, int count, int (*expected)(int, int), int argument) {
    int host[GROUPS * LANES];
    TRY(hipMemcpy(host, out, sizeof host, hipMemcpyDeviceToHost));
    for (int i = 0; i < count; i++)
        if (host[i] != expected(i, argument)) {
            fprintf(stderr, "wrong at %d: %d, not %d\n", i, host[i], expected(i, argument));
            return 1;
        }
    return 0;
}

// The host's memory, so that the program may let its kernels go while they run.
static int spin(int streams) {
    int *go, *out[2];
    hipStream_t stream[2];
    TRY(hipHostMalloc(&go, sizeof *go, hipHostMallocCoherent));
    *go = 0;
    for (int i = 0; i < streams; i++) {
        out[i] = buffer();
        TRY(hipStreamCreate(&stream[i]));
    }
    for (int i = 0; i < streams; i++)
        spinning<<<1, LANES, 0, stream[i]>>>(go, out[i]);
    puts("launched");
    fflush(stdout);
    char byte;
    if (read(0, &byte, 1) != 1) return 4;
    *(volatile int *)go = 1;
    TRY(hipDeviceSynchronize());
    for (int i = 0; i < streams; i++)
        if (check(out[i], LANES, [](int i, int) { return i + 1; }, 0)) return 1;
    return 0;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    if (!strcmp(name, "spinning")) return spin(1);
    if (!strcmp(name, "queues")) return spin(2);
    int *out = buffer();
    if (!strcmp(name, "trapping")) {
        trapping<<<GROUPS, LANES>>>(out, ADDED);
        return check(out, GROUPS * LANES, [](int i, int) { return i * 3 + ADDED + 7; }, 0);
    }
    if (!strcmp(name, "sums")) {
        for (int factor = 2; factor < 4; factor++) {
            sums<<<GROUPS, LANES>>>(out, ADDED, factor);
            if (check(out, GROUPS * LANES, [](int i, int factor) { return (i * 3 + ADDED) * factor + 7; }, factor)) return 1;
        }
        return 0;
    }
    if (!strcmp(name, "changed")) {
        // The debugger adds 1000 to the value of lane 5 in each wave.
        sums<<<GROUPS, LANES>>>(out, ADDED, 2);
        return check(out, GROUPS * LANES, [](int i, int) { return (i * 3 + ADDED + (i % LANES == 5 ? 1000 : 0)) * 2 + 7; }, 0);
    }
    if (!strcmp(name, "storing")) {
        storing<<<1, LANES>>>(out, 76);
        return check(out, LANES, [](int, int) { return 77; }, 0);
    }
    if (!strcmp(name, "violating")) violating<<<1, LANES>>>(out, (int *)0x123000);
    else if (!strcmp(name, "illegal")) illegal<<<1, LANES>>>(out);
    else if (!strcmp(name, "asserting")) asserting<<<1, LANES>>>(out);
    else return 3;
    TRY(hipDeviceSynchronize());
    return 0;
}
