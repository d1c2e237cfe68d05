// v_wmma_f32_16x16x16_f16 of gfx12, whose sums are those of four products at a time. Lanes hold consecutive elements of a row; the card
// takes four elements of each sixteen lanes before the next four: 0 to 3, 8 to 11, 4 to 7, 12 to 15 in a wave of 32 lanes, all in their order
// in a wave of 64. Held against three rows captured on a Radeon AI Pro R9700, from ROCm/rocm-systems
// (emulation/rocjitsu/tests/fixtures/float_dot).
#include "../t.h"

struct Row {
    uint16_t a[16], b[16];
    uint32_t c, of_32, of_64;
};

static const std::vector<Row> ROWS{
    {{0xbd53, 0x36b8, 0x2ae6, 0xb1d2, 0xc7a4, 0x52af, 0xd233, 0x4594, 0x2905, 0x47cd, 0xb74f, 0x56cc, 0x35d2, 0x3da7, 0xac54, 0xab6a},
     {0xc142, 0x4be3, 0xd466, 0x4f40, 0xaf92, 0xc2ba, 0x5479, 0x414f, 0x3144, 0xa72e, 0xc63b, 0x337d, 0x4661, 0x26c6, 0x5512, 0xb324},
     0x3f4725a9,
     0xc56665fb,
     0xc56665fb},
    {{0xc6e1, 0xb1ea, 0xd31d, 0x2d4f, 0x4a45, 0xd1f1, 0x3362, 0xc244, 0x4a75, 0x443e, 0x5623, 0x4ec3, 0x57c7, 0xb82e, 0xcf34, 0x3660},
     {0xd36c, 0xc886, 0x2f3d, 0x30a3, 0xd070, 0xb2cb, 0x4759, 0xcf27, 0x4ed4, 0x3c97, 0xae37, 0xb63f, 0x35f0, 0x3a25, 0xb0d8, 0x405a},
     0xbf6ba3b9,
     0x43dfc44b,
     0x43dfc44a},
    {{0x9844, 0x3f7a, 0x606f, 0xc18c, 0xbe5b, 0x891f, 0xbbfb, 0x93b8, 0xc3c6, 0x32f2, 0xf44e, 0x15cf, 0x5eeb, 0x2b55, 0x8bef, 0xa075},
     {0x8e88, 0xec18, 0xd3c2, 0xf6ae, 0x0cdb, 0x87c5, 0x4587, 0x5825, 0x6e7d, 0x8ab5, 0x8773, 0x4108, 0x91c2, 0x3987, 0x62ab, 0xfbad},
     0x48e26837,
     0x48e6175e,
     0x48e6175f}};

int main(int count, char** arguments) {
    const int lanes = count > 1 ? atoi(arguments[1]) : 32;
    hipModule_t module;
    hipFunction_t kernel;
    H(hipModuleLoad(&module, "k.hsaco"));
    H(hipModuleGetFunction(&kernel, module, "k"));
    for (Row row : ROWS) {
        auto a = up(std::vector<uint16_t>(row.a, row.a + 16)), b = up(std::vector<uint16_t>(row.b, row.b + 16));
        auto results = dev<uint32_t>(256);
        void* of_kernel[] = {&a, &b, &row.c, &results};
        H(hipModuleLaunchKernel(kernel, 1, 1, 1, lanes, 1, 1, 0, 0, of_kernel, nullptr));
        H(hipDeviceSynchronize());
        for (uint32_t result : host(results, 256)) eq("element", lanes == 64 ? row.of_64 : row.of_32, result);
    }
    return done("dot2-matrices");
}
