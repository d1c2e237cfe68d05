// v_cvt_nearest_i32_f32, v_cvt_rpi_i32_f32 of gfx942, is floor(x + 0.5) of the exact sum, so that 0.49999997 becomes 0 and 8388609 stays.
// Held against ROCm/rocm-systems emulation/rocjitsu (shared/conversion.h), compared there with a gfx1201 card; the other chips have
// the operation of the same text.
#include "../t.h"

#include <cmath>

__global__ void convert(const uint32_t* sources, uint32_t* results, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
#if defined(__gfx942__)
    asm volatile("v_cvt_rpi_i32_f32 %0, %1" : "=v"(results[i]) : "v"(sources[i]));
#else
    asm volatile("v_cvt_nearest_i32_f32 %0, %1" : "=v"(results[i]) : "v"(sources[i]));
#endif
}

// The sum of a single and a half is exact in double precision wherever the result needs it.
static uint32_t nearest(float value) {
    const double integer = std::floor((double)value + 0.5);
    if (integer > INT32_MAX) return INT32_MAX;
    if (integer < INT32_MIN) return (uint32_t)INT32_MIN;
    return (uint32_t)(int32_t)integer;
}

int main() {
    std::vector<uint32_t> sources{0x3effffff, 0x3f000000, 0xbf000000, 0xbf000001, 0xbeffffff, 0x4b000001, 0x4a800001, 0x4affffff,
                                  0xcb000001, 0xca800001, 0x3fbfffff, 0x40200000, 0xc0200000, 0x4effffff, 0x4f000000, 0xcf000001};
    Random random;
    for (int i = 0; i < 50000; i++) {
        const uint32_t digits = random.next() & 0x807fffff;
        sources.push_back(digits | (120 + random.next() % 38) << 23);
    }
    const int count = sources.size();
    auto memory = dev<uint32_t>(count);
    convert<<<(count + 255) / 256, 256>>>(up(sources), memory, count);
    H(hipDeviceSynchronize());
    const auto results = host(memory, count);
    for (int i = 0; i < count; i++) {
        char what[40];
        snprintf(what, sizeof what, "nearest(%08x)", sources[i]);
        eq(what, nearest(single(sources[i])), results[i]);
    }
    return done("nearest-integers");
}
