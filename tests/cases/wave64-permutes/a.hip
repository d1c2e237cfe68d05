// A wave of 64 lanes: ds_permute and ds_bpermute reach all lanes on gfx12 and gfx9, and the lanes of the own half on gfx11. Held
// against LLVM (GCNSubtarget::supportsWaveWideBPermute, llvm-project 210661); the other operations against the ISA manuals.
#include "../t.h"

const int LANES = 64, ROWS = 14;

static void check(const std::vector<uint32_t>& results, unsigned lane, bool halves) {
    auto row = [&](int number, const char* what, uint32_t wanted) {
        char name[64];
        snprintf(name, sizeof name, "%s, lane %u", what, lane);
        eq(name, wanted, results[number * LANES + lane]);
    };
    uint64_t thirds = 0;
    for (int i = 0; i < LANES; i += 3) thirds |= 1ull << i;
    row(0, "ds_bpermute of the other half", halves ? 1000 + lane : 1000 + (lane ^ 32));
    row(1, "ds_bpermute within a half", 1000 + (lane ^ 5));
    row(2, "ds_permute to the other half", halves ? 1000 + lane : 1000 + (lane ^ 32));
    row(3, "readlane", 1045);
    row(4, "mbcnt", lane);
    row(5, "ballot, low", (uint32_t)thirds);
    row(6, "ballot, high", thirds >> 32);
    row(7, "row_shr:1", lane % 16 ? 1000 + lane - 1 : 7);
    if (!family("gfx9")) {
        row(8, "permlane64", 1000 + (lane ^ 32));
        row(9, "permlanex16", 1000 + (lane ^ 16));
    }
    row(10, "ds_swizzle", 1000 + (lane ^ 1));
    row(11, "sum of all lanes", 64 * 1000 + 64 * 63 / 2);
    row(12, "sum up to a lane", (lane + 1) * 1000 + lane * (lane + 1) / 2);
    row(13, "size of the wave", 64);
}

int main() {
    hipModule_t module;
    hipFunction_t kernel;
    H(hipModuleLoad(&module, "k.hsaco"));
    H(hipModuleGetFunction(&kernel, module, "k"));
    auto memory = dev<uint32_t>(ROWS * LANES);
    void* arguments[] = {&memory};
    H(hipModuleLaunchKernel(kernel, 1, 1, 1, LANES, 1, 1, 0, 0, arguments, nullptr));
    H(hipDeviceSynchronize());
    const auto results = host(memory, ROWS * LANES);
    const bool halves = family("gfx11");
    for (unsigned lane = 0; lane < LANES; lane++) check(results, lane, halves);
    return done("wave64-permutes");
}
