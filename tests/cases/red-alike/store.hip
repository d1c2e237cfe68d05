// The same of stores: nothing is stored 4 GiB from where lanes say.
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
    unsigned long long H = ((unsigned long long)memory >> 32) + 1;
    char *low = (char*)(H << 32), *high = (char*)((H + 1) << 32);
    char* places[] = {low, high, high - 4096};
    hipModule_t module;
    hipFunction_t kernel;
    CHECK(hipModuleLoad(&module, "store.hsaco"));
    CHECK(hipModuleGetFunction(&kernel, module, "k"));
    unsigned long long first = (unsigned long long)results, second = H << 32;
    void* arguments[] = {&first, &second};
    int wrong = 0;
    for (int run = 0; run < 100; run++) {
        for (char* place : places) CHECK(hipMemset(place, 0, 4096));
        CHECK(hipModuleLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, 0, arguments, 0));
        CHECK(hipDeviceSynchronize());
        unsigned expected[3][1024] = {};
        for (unsigned lane = 0; lane < 32; lane++) {
            (lane < 4 ? expected[2][1020 + lane] : expected[0][lane - 4]) = 0xa0000 + lane;
            (lane < 4 ? expected[1][60 + lane] : expected[0][60 + lane]) = 0xb0000 + lane;
        }
        for (int n = 0; n < 3; n++) {
            CHECK(hipMemcpy(words, places[n], 4096, hipMemcpyDefault));
            for (int i = 0; i < 1024; i++) {
                if (words[i] == expected[n][i]) continue;
                if (wrong++ < 5) {
                    printf("DIFF run %d place %d word %d: wanted %x, got %x\n", run, n, i, expected[n][i], words[i]);
                }
            }
        }
    }
    printf("%d wrong -> %s\n", wrong, wrong ? "FAIL" : "PASS");
    return wrong != 0;
}
