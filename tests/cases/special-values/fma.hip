// v_fma_f32 of all triples of 64 special values: the first NaN among the factors, made quiet; then the NaN of an invalid product, before
// one that is added. Held against ROCm/rocm-systems emulation/rocjitsu (shared/fp_mode.h: the invalid product wins although the addend
// supplies a payload); finite results against the host's.
#include "values.h"

#include <cmath>

TRIPLES(fmas, "v_fma_f32 %0, %1, %2, %3")

static uint32_t fused(uint32_t a, uint32_t b, uint32_t c) {
    if (is_nan(a)) return quiet(a);
    if (is_nan(b)) return quiet(b);
    if ((is_infinite(a) && is_zero(b)) || (is_zero(a) && is_infinite(b))) return INVALID;
    if (is_nan(c)) return quiet(c);
    const float sum = std::fma(single(a), single(b), single(c));
    return std::isnan(sum) ? INVALID : bits(sum);
}

int main() {
    check_triples("fma", fmas, fused);
    return done("special-values fma");
}
