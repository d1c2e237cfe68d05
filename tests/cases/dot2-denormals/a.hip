// v_dot2_f32_f16 with singles' denormals on in MODE, as HIP has it: gfx9 and gfx11 take a denormal third source for zero all the same,
// gfx12 keeps it; halves' denormals count. v_fma_mix_f32 goes by MODE. Held against ROCm/rocm-systems emulation/rocjitsu
// (shared/gfx11_dot2.h, gfx12_dot.h) and, for gfx9, what SemiAnalysisAI/FuzzX (note m100) saw of gfx950.
#include "../t.h"

__global__ void sums(const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* dots, uint32_t* mixed) {
    int i = threadIdx.x;
    asm volatile("v_dot2_f32_f16 %0, %1, %2, %3" : "=v"(dots[i]) : "v"(a[i]), "v"(b[i]), "v"(c[i]));
    asm volatile("v_fma_mix_f32 %0, %1, %2, %3 op_sel_hi:[1,1,0]"
                 : "=v"(mixed[i])
                 : "v"(a[i]), "v"(b[i]), "v"(c[i]));
}

int main() {
    const std::vector<uint32_t> a{0, 0, 0x00000001}, b{0, 0, 0x00000001}, c{0x00000001, 0x80400000, 0};
    auto dots = dev<uint32_t>(3), mixed = dev<uint32_t>(3);
    sums<<<1, 3>>>(up(a), up(b), up(c), dots, mixed);
    H(hipDeviceSynchronize());
    const auto dot = host(dots, 3), mix = host(mixed, 3);
    const bool kept = family("gfx12");
    eq("dot2, the least denormal for C", kept ? c[0] : 0, dot[0]);
    // No source has the sign of gfx9's zero.
    eq("dot2, a negative denormal for C", kept ? c[1] : 0, family("gfx9") ? dot[1] & 0x7fffffff : dot[1]);
    eq("dot2, product of denormal halves", 0x27800000, dot[2]);
    eq("mix, the least denormal for C", c[0], mix[0]);
    eq("mix, a negative denormal for C", c[1], mix[1]);
    return done("dot2-denormals");
}
