// Lanes whose low halves of addresses wrap at 4 GiB between them, with one high half: what they load is 4 GiB apart. A second load, 256
// bytes further on as numbers of 64 bits, lies alike and is in one piece only for some of the lanes.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                               \
    do {                                                          \
        hipError_t failed = (call);                               \
        if (failed != hipSuccess) {                               \
            printf("%s: %s -> FAIL\n", #call, hipGetErrorString(failed)); \
            exit(1);                                              \
        }                                                         \
    } while (0)

int main() {
    char* memory;
    unsigned *results, words[1024];
    CHECK(hipMalloc(&memory, 9ull << 30));
    CHECK(hipMalloc(&results, 4096));
    // Bytes at `low` have high half H, those at `high` the next one.
    unsigned long long H = ((unsigned long long)memory >> 32) + 1;
    char *low = (char*)(H << 32), *high = (char*)((H + 1) << 32);
    char* places[] = {low, high, high - 4096};
    for (unsigned n = 0; n < 3; n++) {
        for (int i = 0; i < 1024; i++) words[i] = 0x10000 * (n + 1) + i;
        CHECK(hipMemcpy(places[n], words, 4096, hipMemcpyDefault));
    }
    hipModule_t module;
    hipFunction_t kernel;
    CHECK(hipModuleLoad(&module, "load.hsaco"));
    CHECK(hipModuleGetFunction(&kernel, module, "k"));
    unsigned long long first = (unsigned long long)results, second = H << 32;
    void* arguments[] = {&first, &second};
    int wrong = 0;
    for (int run = 0; run < 100; run++) {
        CHECK(hipModuleLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, 0, arguments, 0));
        CHECK(hipDeviceSynchronize());
        CHECK(hipMemcpy(words, results, 512, hipMemcpyDefault));
        for (unsigned lane = 0; lane < 32; lane++) {
            // Lanes 0 to 3 are in front of 4 GiB, the others behind, which is to say at its beginning.
            unsigned loaded = lane < 4 ? 0x30000 + 1020 + lane : 0x10000 + lane - 4;
            unsigned further = lane < 4 ? 0x20000 + 60 + lane : 0x10000 + 60 + lane;
            if (words[lane] == loaded && words[32 + lane] == further) continue;
            if (wrong++ < 5) {
                printf("DIFF run %d lane %u: wanted %x %x, got %x %x\n", run, lane, loaded, further, words[lane],
                       words[32 + lane]);
            }
        }
    }
    printf("%d wrong -> %s\n", wrong, wrong ? "FAIL" : "PASS");
    return wrong != 0;
}
