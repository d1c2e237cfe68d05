// A thread of the host writes numbers twice into 64 bits while a kernel loads them, in elements of 8 and 16 bytes, by various lanes at
// various distances: no half is ever of another round than the other one, and no data is older than the flag behind it.
#include <hip/hip_runtime.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>

typedef uint32_t u4 __attribute__((ext_vector_type(4)));

// Mode 0: 64-bit relaxed atomic loads, 8 bytes apart, all lanes; 1: 16 bytes apart, all lanes; 2: the same, odd lanes; 3: one address, odd
// lanes; 4: 16-byte vector loads of {data, flag, data, flag}, one behind the other, all lanes; 5: the same, odd lanes.
__global__ void load(uint64_t* words, uint32_t* torn, uint64_t* seen, int mode, int rounds) {
    uint32_t t = 0;
    uint64_t s = 0;
    int lane = threadIdx.x;
    bool odd = mode == 2 || mode == 3 || mode == 5;
    if (!odd || (lane & 1)) {
        for (int i = 0; i < rounds; i++) {
            if (mode <= 3) {
                uint64_t* p = words + (mode == 0 ? lane : mode == 3 ? 0 : 2 * lane);
                uint64_t v = __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
                t += (uint32_t)v != (uint32_t)(v >> 32);
                s += v != 0;
            } else {
                u4 v = __builtin_nontemporal_load((u4*)(words + 2 * lane));
                t += v.x < v.y || v.z < v.w;
                s += v.x != 0;
            }
        }
    }
    torn[lane] = t;
    seen[lane] = s;
}

#define CHECK(call)                                               \
    do {                                                          \
        hipError_t failed = (call);                               \
        if (failed != hipSuccess) {                               \
            printf("%s: %s -> FAIL\n", #call, hipGetErrorString(failed)); \
            exit(1);                                              \
        }                                                         \
    } while (0)

int main(int count, char** arguments) {
    int rounds = count > 1 ? atoi(arguments[1]) : 200000;
    uint64_t *words, *seen;
    uint32_t* torn;
    CHECK(hipHostMalloc((void**)&words, 4096, hipHostMallocCoherent));
    CHECK(hipHostMalloc((void**)&torn, 4096, 0));
    CHECK(hipHostMalloc((void**)&seen, 4096, 0));
    uint64_t all = 0, loads = 0;
    for (int mode = 0; mode < 6; mode++) {
        std::atomic<bool> stop{false};
        std::thread writer([&] {
            for (uint64_t x = 1; !stop; x = (x + 1) & 0x7fffffff)
                for (int i = 0; i < 128; i++) __atomic_store_n(&words[i], x << 32 | x, __ATOMIC_RELAXED);
        });
        for (int i = 0; i < 64; i++) torn[i] = 0, seen[i] = 0;
        load<<<1, 64>>>(words, torn, seen, mode, rounds);
        hipError_t e = hipDeviceSynchronize();
        stop = true;
        writer.join();
        CHECK(e);
        uint64_t t = 0, s = 0;
        for (int i = 0; i < 64; i++) t += torn[i], s += seen[i];
        printf("mode %d: %llu loads, %llu torn\n", mode, (unsigned long long)s, (unsigned long long)t);
        all += t;
        loads += s;
    }
    bool pass = all == 0 && loads > 0;
    printf("%llu torn -> %s\n", (unsigned long long)all, pass ? "PASS" : "FAIL");
    return !pass;
}
