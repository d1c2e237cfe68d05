// A flat load whose register is below the aperture of LDS and whose offset leads back inside: the register alone says what an address
// is of, so a card looks for memory there, and there is none. Held against LLVM, which for that reason folds no offset whose base may
// be outside (llvm-project 131863, 132353, 153001).
#include "../t.h"

__global__ void load(float* results, int below) {
    __shared__ float numbers[64];
    numbers[threadIdx.x] = threadIdx.x + 0.5f;
    numbers[threadIdx.x + 32] = 100;
    __syncthreads();
    float* generic = numbers;
    uint64_t base = (uint64_t)generic - 4ull * below;
    float loaded;
#if defined(__gfx942__)
    asm volatile("flat_load_dword %0, %1 offset:4\n s_waitcnt vmcnt(0) lgkmcnt(0)" : "=v"(loaded) : "v"(base));
#elif defined(__gfx1201__)
    asm volatile("flat_load_b32 %0, %1 offset:4\n s_wait_loadcnt_dscnt 0" : "=v"(loaded) : "v"(base));
#else
    asm volatile("flat_load_b32 %0, %1 offset:4\n s_waitcnt vmcnt(0) lgkmcnt(0)" : "=v"(loaded) : "v"(base));
#endif
    results[threadIdx.x] = loaded;
}

int main(int count, char** arguments) {
    const bool outside = count > 1 && strcmp(arguments[1], "outside") == 0;
    auto results = dev<float>(32);
    load<<<1, 32>>>(results, outside);
    H(hipDeviceSynchronize());
    ok("no fault", !outside);
    for (float result : host(results, 32)) eq("loaded", bits(outside ? 0.5f : 1.5f), bits(result));
    return done("flat-apertures");
}
