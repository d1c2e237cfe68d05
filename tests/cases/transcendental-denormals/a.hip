// Denormals of single precision through v_rcp, v_rsq, v_sqrt, v_log and v_exp are zeros before and behind the operation, although MODE
// keeps denormals. Held against ROCm/rocm-systems emulation/rocjitsu (shared/pseudo_scalar.h), yoshou/amdgpu-sim (tests/isa/vop1.rs,
// of a gfx1200 card) and LLVM, which scales such operands (llvm-project 211017).
#include "../t.h"

#define OPERATION(name)                                                                       \
    __global__ void name(const uint32_t* sources, uint32_t* results) {                        \
        int i = threadIdx.x;                                                                  \
        asm volatile("v_" #name "_f32 %0, %1\n s_nop 4" : "=v"(results[i]) : "v"(sources[i])); \
    }
namespace gpu {
OPERATION(rcp)
OPERATION(rsq)
OPERATION(sqrt)
OPERATION(log)
OPERATION(exp)
}  // namespace gpu

__global__ void mode(uint32_t* result) {
    asm volatile("s_getreg_b32 %0, hwreg(HW_REG_MODE)" : "=s"(*result));
}

struct Pair {
    uint32_t source, wanted;
};

template <class Kernel>
void check(const char* name, Kernel kernel, const std::vector<Pair>& pairs) {
    std::vector<uint32_t> sources;
    for (const Pair& pair : pairs) sources.push_back(pair.source);
    auto memory = dev<uint32_t>(pairs.size());
    kernel<<<1, pairs.size()>>>(up(sources), memory);
    H(hipDeviceSynchronize());
    const auto results = host(memory, pairs.size());
    for (size_t i = 0; i < pairs.size(); i++) {
        char what[40];
        snprintf(what, sizeof what, "%s of %08x", name, sources[i]);
        eq(what, pairs[i].wanted, results[i]);
    }
}

int main() {
    auto memory = dev<uint32_t>(1);
    mode<<<1, 1>>>(memory);
    H(hipDeviceSynchronize());
    eq("MODE keeps denormals of singles", 3, host(memory, 1)[0] >> 4 & 3);
    const uint32_t infinity = 0x7f800000, negative = 0x80000000;
    check("rcp", gpu::rcp,
          {{0x00000001, infinity},
           {0x00400000, infinity},
           {0x007fffff, infinity},
           {0x80400000, infinity | negative},
           {0x7f000000, 0},
           {0xff000000, negative},
           {0x00800000, 0x7e800000}});
    check("rsq", gpu::rsq, {{0x00000001, infinity}, {0x00400000, infinity}});
    check("sqrt", gpu::sqrt, {{0x00400000, 0}, {0x80400000, negative}});
    check("log", gpu::log, {{0x00400000, infinity | negative}});
    // Of -126, -128 and -148.
    check("exp", gpu::exp, {{0xc2fc0000, 0x00800000}, {0xc3000000, 0}, {0xc3140000, 0}});
    return done("transcendental-denormals");
}
