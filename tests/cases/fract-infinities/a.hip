// v_fract of an infinity is infinity less infinity, the negative quiet NaN, in all three formats. Held against ROCm/rocm-systems
// emulation/rocjitsu (shared/fract.h) and yoshou/amdgpu-sim (tests/isa/vop1.rs, of a gfx1200 card).
#include "../t.h"

const int COUNT = 3;

__global__ void fract(const uint32_t* singles, const uint64_t* doubles, const uint32_t* halves, uint64_t* results) {
    int i = threadIdx.x;
    uint32_t single, half;
    uint64_t twice;
    asm volatile("v_fract_f32 %0, %1" : "=v"(single) : "v"(singles[i]));
    asm volatile("v_fract_f64 %0, %1" : "=v"(twice) : "v"(doubles[i]));
    asm volatile("v_fract_f16 %0, %1" : "=v"(half) : "v"(halves[i]));
    results[i] = single;
    results[COUNT + i] = twice;
    results[2 * COUNT + i] = half & 0xffff;
}

int main() {
    // Infinities, and -2.25, whose distance to the integer below is 0.75.
    const std::vector<uint32_t> singles{0x7f800000, 0xff800000, 0xc0100000};
    const std::vector<uint64_t> doubles{0x7ff0000000000000, 0xfff0000000000000, 0xc002000000000000};
    const std::vector<uint32_t> halves{0x7c00, 0xfc00, 0xc080};
    auto memory = dev<uint64_t>(3 * COUNT);
    fract<<<1, COUNT>>>(up(singles), up(doubles), up(halves), memory);
    H(hipDeviceSynchronize());
    const auto results = host(memory, 3 * COUNT);
    const uint64_t wanted[3][COUNT] = {{0xffc00000, 0xffc00000, 0x3f400000},
                                       {0xfff8000000000000, 0xfff8000000000000, 0x3fe8000000000000},
                                       {0xfe00, 0xfe00, 0x3a00}};
    const char* formats[] = {"single", "double", "half"};
    for (int format = 0; format < 3; format++)
        for (int i = 0; i < COUNT; i++) eq(formats[format], wanted[format][i], results[format * COUNT + i]);
    return done("fract-infinities");
}
