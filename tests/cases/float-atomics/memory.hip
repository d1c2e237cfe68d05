// Float minima in memory: a number wins over a NaN on either side, what was there comes back, and -0 is below +0. Held against the ISA
// manuals and ROCm/rocm-systems 11447.
#include "../t.h"

const uint32_t NAN_55 = 0x7fc00055, THREE = 0x40400000, FIVE = 0x40a00000, MINUS = 0x80000000;

#if defined(__gfx942__)
__global__ void minima(uint32_t*, uint32_t*, double* doubles) {
    const double operands[] = {3, __builtin_nan("85")};
    for (int i = 0; i < 2; i++) {
        asm volatile("global_atomic_min_f64 %0, %1, off\n s_waitcnt vmcnt(0)"
                     :
                     : "v"(doubles + i), "v"(operands[i])
                     : "memory");
    }
}
#else
#if defined(__gfx1201__)
#define MIN "global_atomic_min_num_f32 %0, %1, %2, off th:TH_ATOMIC_RETURN\n s_wait_loadcnt 0"
#else
#define MIN "global_atomic_min_f32 %0, %1, %2, off glc\n s_waitcnt vmcnt(0)"
#endif
__global__ void minima(uint32_t* words, uint32_t* returned, double*) {
    const uint32_t operands[] = {THREE, NAN_55, 0, MINUS};
    for (int i = 0; i < 4; i++) {
        uint32_t before;
        asm volatile(MIN : "=&v"(before) : "v"(words + i), "v"(operands[i]) : "memory");
        returned[i] = before;
    }
}
#endif

int main() {
    const std::vector<uint32_t> before{NAN_55, FIVE, MINUS, 0};
    auto words = up(before), returned = dev<uint32_t>(4);
    auto doubles = up(std::vector<double>{__builtin_nan("85"), 5});
    minima<<<1, 1>>>(words, returned, doubles);
    H(hipDeviceSynchronize());
    if (family("gfx9")) {
        const auto results = host(doubles, 2);
        ok("min(NaN in memory, 3), doubles", results[0] == 3);
        ok("min(5 in memory, NaN), doubles", results[1] == 5);
    } else {
        const auto results = host(words, 4), was = host(returned, 4);
        eq("min(NaN in memory, 3)", THREE, results[0]);
        eq("min(5 in memory, NaN)", FIVE, results[1]);
        eq("min(-0 in memory, +0)", MINUS, results[2]);
        eq("min(+0 in memory, -0)", MINUS, results[3]);
        for (int i = 0; i < 4; i++) eq("what was there", before[i], was[i]);
    }
    return done("float-atomics memory");
}
