// Sums in memory keep denormals, in a function whose denormals are on: LLVM does what the language wants of atomicrmw fadd with
// whatever instruction the chip has (llvm-project 89468).
#include "../t.h"

int main() {
    hipModule_t module;
    hipFunction_t kernel;
    H(hipModuleLoad(&module, "sum.hsaco"));
    H(hipModuleGetFunction(&kernel, module, "k"));
    const uint32_t sums[][3] = {{3, 5, 8}, {0, 5, 5}, {0x00800000, 0x80000001, 0x007fffff}, {0x3f800000, 0x3f800000, 0x40000000}};
    for (const auto& sum : sums) {
        auto memory = up(std::vector<uint32_t>{sum[0]});
        float number = single(sum[1]);
        void* arguments[] = {&memory, &number};
        H(hipModuleLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, arguments, nullptr));
        H(hipDeviceSynchronize());
        eq("sum in memory", sum[2], host(memory, 1)[0]);
    }
    return done("float-atomics sum");
}
