// v_div_fixup_f32, v_min_f32 and v_min3_f32 (on gfx12 v_min_num_f32 and v_min3_num_f32) of all triples of 64 special values. Held
// against the rules in ROCm/rocm-systems emulation/rocjitsu (shared/division.h, minmax.h, fp_mode.h), of gfx1100 and gfx1201 cards:
// of two quiet NaNs the first comes out, and before gfx12 a signalling one before all.
#include "values.h"

TRIPLES(fixups, "v_div_fixup_f32 %0, %1, %2, %3")
#if defined(__gfx1201__)
TRIPLES(minima, "v_min_num_f32 %0, %1, %2 ; %3")
TRIPLES(minima_of_three, "v_min3_num_f32 %0, %1, %2, %3")
#else
TRIPLES(minima, "v_min_f32 %0, %1, %2 ; %3")
TRIPLES(minima_of_three, "v_min3_f32 %0, %1, %2, %3")
#endif

// The quotient, made right for special operands.
static uint32_t fixup(uint32_t quotient, uint32_t denominator, uint32_t numerator) {
    const uint32_t sign = (denominator ^ numerator) & SIGN;
    if (is_nan(numerator)) return quiet(numerator);
    if (is_nan(denominator)) return quiet(denominator);
    if (is_zero(denominator) && is_zero(numerator)) return INVALID;
    if (is_infinite(denominator) && is_infinite(numerator)) return INVALID;
    if (is_zero(denominator) || is_infinite(numerator)) return sign | INFINITE;
    if (is_infinite(denominator) || is_zero(numerator)) return sign;
    if (field(numerator) - field(denominator) < -150) return sign;
    if (is_nan(quotient)) return sign | INFINITE;
    return sign | (quotient & ~SIGN);
}

static uint32_t minimum(bool numbers_win, uint32_t a, uint32_t b) {
    if (!numbers_win && is_signalling(a)) return quiet(a);
    if (!numbers_win && is_signalling(b)) return quiet(b);
    if (is_nan(a)) return is_nan(b) ? quiet(a) : b;
    if (is_nan(b)) return a;
    if (is_zero(a) && is_zero(b)) return a | b;
    return single(a) < single(b) ? a : b;
}

int main() {
    const bool numbers_win = family("gfx12");
    check_triples("div_fixup", fixups, fixup);
    check_triples("min", minima, [&](uint32_t a, uint32_t b, uint32_t) { return minimum(numbers_win, a, b); });
    check_triples("min3", minima_of_three, [&](uint32_t a, uint32_t b, uint32_t c) {
        return minimum(numbers_win, minimum(numbers_win, a, b), c);
    });
    return done("special-values triples");
}
