// Output modifiers while MODE keeps denormals, as HIP has it: gfx12 scales the result all the same, the chips before do not. clamp has
// its effect always. Held against yoshou/amdgpu-sim (tests/isa/vop3, v_s_rcp, of a gfx1200 card) and ROCm/rocm-systems
// emulation/rocjitsu (shared/output_modifier.h, `effective_omod`); gfx942 against its ISA manual and LLVM.
#include "../t.h"

struct Row {
    const char* operation;
    uint64_t scaled, as_it_is;
};

static const Row ROWS[] = {
    {"-2.5 + 1.5, mul:2", 0xc0000000, 0xbf800000},
    {"-2.5 + 1.5, mul:4", 0xc0800000, 0xbf800000},
    {"-2.5 + 1.5, div:2", 0xbf000000, 0xbf800000},
    {"-2.5 * 1.5, mul:2", 0xc0f00000, 0xc0700000},
    {"ceil(-2.5), mul:2", 0xc0800000, 0xc0000000},
    {"ceil(-2.5), mul:4", 0xc1000000, 0xc0000000},
    {"ceil(-2.5), div:2", 0xbf800000, 0xc0000000},
    {"1 / 2, mul:2", 0x3f800000, 0x3f000000},
    {"1 / 2, div:2", 0x3e800000, 0x3f000000},
    {"-2.5 + 1.5, mul:2, doubles", 0xc000000000000000, 0xbff0000000000000},
    {"-2.5 + 1.5, clamp", 0, 0},
    {"1 / 2, mul:2, scalar", 0x3f800000, 0},
};
const int COUNT = sizeof ROWS / sizeof *ROWS;

#define PAIR(row, text)                                        \
    asm volatile(text : "=v"(result) : "v"(a), "v"(b), "v"(c)); \
    results[row] = result;

__global__ void operations(uint64_t* results, uint32_t a, uint32_t b, uint32_t c) {
    uint32_t result;
    PAIR(0, "v_add_f32 %0, %1, %2 mul:2")
    PAIR(1, "v_add_f32 %0, %1, %2 mul:4")
    PAIR(2, "v_add_f32 %0, %1, %2 div:2")
    PAIR(3, "v_mul_f32 %0, %1, %2 mul:2")
    PAIR(4, "v_ceil_f32 %0, %1 mul:2")
    PAIR(5, "v_ceil_f32 %0, %1 mul:4")
    PAIR(6, "v_ceil_f32 %0, %1 div:2")
    PAIR(7, "v_rcp_f32 %0, %3 mul:2\n s_nop 4")
    PAIR(8, "v_rcp_f32 %0, %3 div:2\n s_nop 4")
    asm volatile("v_add_f64 %0, %1, %2 mul:2" : "=v"(results[9]) : "v"(-2.5), "v"(1.5));
    PAIR(10, "v_add_f32 %0, %1, %2 clamp")
#if defined(__gfx1201__)
    asm volatile("v_s_rcp_f32 s20, %1 mul:2\n s_nop 4\n v_mov_b32 %0, s20" : "=v"(result) : "s"(c) : "s20");
    results[11] = result;
#endif
}

int main() {
    auto memory = dev<uint64_t>(COUNT);
    operations<<<1, 1>>>(memory, bits(-2.5f), bits(1.5f), bits(2));
    H(hipDeviceSynchronize());
    const auto results = host(memory, COUNT);
    const bool scaled = family("gfx12");
    for (int i = 0; i < COUNT; i++) eq(ROWS[i].operation, scaled ? ROWS[i].scaled : ROWS[i].as_it_is, results[i]);
    return done("output-modifiers");
}
