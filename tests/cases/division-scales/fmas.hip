// v_div_fmas_f32 with its flag set scales the sum by 2^64, up where the addend is 2 or more and down elsewhere. Held against the rules in
// ROCm/rocm-systems emulation/rocjitsu (shared/division.h), measured on gfx1100 and gfx1201.
#include "../t.h"

__global__ void fmas(const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* results, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    asm volatile("s_mov_b32 vcc_lo, -1\n s_nop 4\n v_div_fmas_f32 %0, %1, %2, %3"
                 : "=v"(results[i])
                 : "v"(a[i]), "v"(b[i]), "v"(c[i])
                 : "vcc");
}

// In quadruple precision, so that there is one rounding.
static uint32_t scaled_sum(uint32_t a, uint32_t b, uint32_t c) {
    const __float128 sum = (__float128)single(a) * single(b) + (__float128)single(c);
    const __float128 large = 18446744073709551616.0;
    return bits((float)((c >> 23 & 255) > 127 ? sum * large : sum / large));
}

int main() {
    const int count = 20000;
    std::vector<uint32_t> a, b, c;
    Random random;
    auto number = [&](int exponent) { return (random.next() & 0x807fffff) | (uint32_t)exponent << 23; };
    for (int i = 0; i < count; i++) {
        // Products within 2^10 of their addends.
        const int addend = 1 + random.next() % 250, first = 1 + random.next() % 254;
        const int second = addend + 127 - first + (int)(random.next() % 21) - 10;
        a.push_back(number(first));
        b.push_back(number(second < 1 ? 1 : second > 254 ? 254 : second));
        c.push_back(number(addend));
    }
    auto memory = dev<uint32_t>(count);
    fmas<<<(count + 255) / 256, 256>>>(up(a), up(b), up(c), memory, count);
    H(hipDeviceSynchronize());
    const auto results = host(memory, count);
    for (int i = 0; i < count; i++) {
        char what[60];
        snprintf(what, sizeof what, "fmas(%08x, %08x, %08x)", a[i], b[i], c[i]);
        eq(what, scaled_sum(a[i], b[i], c[i]), results[i]);
    }
    return done("division-scales fmas");
}
