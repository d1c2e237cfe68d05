// How gfx11 and gfx12 add products of 16-bit floats to a single: on a grid of whole units, with what is below it cut off, and one
// rounding at the end. Written from the description in ROCm/rocm-systems issue 12056, checked with the results captured there.
#pragma once
#include <algorithm>
#include <cstdint>

// A number of units of 2^unit. Zeros have a sign.
struct Number {
    uint64_t magnitude;
    int unit;
    bool negative;
};

const int NOWHERE = -1024;

// The exponent of the first digit.
static int leading(const Number& x) {
    return x.magnitude ? x.unit + 63 - __builtin_clzll(x.magnitude) : NOWHERE;
}

// In larger or smaller units, towards zero.
static uint64_t cut(const Number& x, int unit) {
    const int shift = x.unit - unit;
    return shift >= 0 ? x.magnitude << shift : shift <= -64 ? 0 : x.magnitude >> -shift;
}

static bool loses(const Number& x, int unit) {
    const int shift = x.unit - unit;
    return shift <= -64 ? x.magnitude != 0 : shift < 0 && (x.magnitude & ((1ull << -shift) - 1));
}

// In larger or smaller units, towards minus infinity; what is less than a unit may vanish.
static int64_t floored(const Number& x, int unit, bool vanishes = false) {
    const int64_t kept = cut(x, unit);
    if (!x.negative) return kept;
    return -kept - (loses(x, unit) && !(vanishes && kept == 0));
}

// Without the low bits, to the nearest, ties to even.
static uint64_t rounded(uint64_t x, int shift) {
    if (shift <= 0) return x << -shift;
    if (shift >= 64) return 0;
    const uint64_t rest = x & ((1ull << shift) - 1), half = 1ull << (shift - 1), kept = x >> shift;
    return kept + (rest > half || (rest == half && (kept & 1)));
}

// A sum of units as a single.
static uint32_t as_single(int64_t sum, int unit, bool negated, bool denormals) {
    if (sum == 0) return 0;
    const uint32_t sign = (uint32_t)((sum < 0) != negated) << 31;
    const Number x = {(uint64_t)std::abs(sum), unit, false};
    int exponent = leading(x);
    if (denormals && exponent < -126) {
        const uint64_t digits = rounded(x.magnitude, -149 - unit);
        return digits ? sign | (uint32_t)digits : 0;
    }
    uint64_t digits = rounded(x.magnitude, exponent - unit - 23);
    if (digits == 1 << 24) {
        digits >>= 1;
        exponent++;
    }
    if (exponent < -126) return 0;
    if (exponent > 127) return sign | 0x7f800000;
    return sign | (uint32_t)(exponent + 127) << 23 | ((uint32_t)digits & 0x7fffff);
}

// A format of factors.
struct Format {
    int digits, bias;
    uint16_t infinity;
    bool denormals;

    int field(uint16_t x) const { return (x & 0x7fff) >> digits; }
    int exponent(uint16_t x) const { return std::max(field(x), 1) - bias; }
    bool is_nan(uint16_t x) const { return (x & 0x7fff) > infinity; }
    bool is_infinite(uint16_t x) const { return (x & 0x7fff) == infinity; }

    uint32_t significand(uint16_t x) const {
        const uint32_t fraction = x & ((1 << digits) - 1);
        return field(x) ? fraction | 1 << digits : denormals ? fraction : 0;
    }
};

// What a sum is that is not of finite numbers; 0 of one that is.
static uint32_t special(const Format& format, int count, const uint16_t* a, const uint16_t* b, uint32_t c) {
    const uint32_t of_factor = 0xffc00a3d, invalid = 0xffc00000, infinite = 0x7f800000, sign = 0x80000000;
    bool up = false, down = false;
    for (int i = 0; i < count; i++)
        if (format.is_nan(a[i]) || format.is_nan(b[i])) return of_factor;
    bool is_invalid = false;
    for (int i = 0; i < count; i++) {
        const bool first = format.is_infinite(a[i]), second = format.is_infinite(b[i]), negative = (a[i] ^ b[i]) >> 15;
        is_invalid |= (first && !format.significand(b[i])) || (second && !format.significand(a[i]));
        (negative ? down : up) |= first || second;
    }
    if (is_invalid || (up && down)) return invalid;
    if ((c & ~sign) > infinite) return c | 0x400000;
    up |= c == infinite;
    down |= c == (infinite | sign);
    return up && down ? invalid : up ? infinite : down ? infinite | sign : 0;
}

// gfx11: all in one step, in units of C's sign; numbers of the other sign are complements.
static uint32_t sum_gfx11(int count, const Number* products, int grid, const Number& c) {
    int lead = leading(c);
    for (int i = 0; i < count; i++) lead = std::max(lead, leading(products[i]));
    if (lead == NOWHERE) return 0;
    grid = std::max(grid, lead - 26);
    int64_t sum = cut(c, grid);
    for (int i = 0; i < count; i++) {
        const int64_t kept = cut(products[i], grid);
        sum += products[i].negative != c.negative ? -kept - 1 : kept;
    }
    return as_single(sum, grid, c.negative, false);
}

// gfx12: pairs of products on grids of their own, then all together.
static uint32_t sum_gfx12(int count, const Number* products, const int* grids, int grid, const Number& c) {
    grid = std::max(grid, std::max(-126, leading(c)) - 26);
    int64_t sum = floored(c, grid, grid > -126);
    for (int i = 0; i < count; i += 2) {
        const int unit = std::max(grids[i], grids[i + 1]);
        const int64_t pair = floored(products[i], unit) + floored(products[i + 1], unit);
        sum += floored({(uint64_t)std::abs(pair), unit, pair < 0}, grid);
    }
    return as_single(sum, grid, false, true);
}

// The sum of two or four products and a single.
static uint32_t dot(bool gfx12, bool brains, int count, const uint16_t* a, const uint16_t* b, uint32_t c) {
    const Format format = brains ? Format{7, 127, 0x7f80, gfx12} : Format{10, 15, 0x7c00, true};
    if (const uint32_t result = special(format, count, a, b, c)) return result;
    Number products[4];
    int grids[4], grid = NOWHERE;
    for (int i = 0; i < count; i++) {
        const int exponent = format.exponent(a[i]) + format.exponent(b[i]);
        const uint64_t magnitude = (uint64_t)format.significand(a[i]) * format.significand(b[i]);
        products[i] = {magnitude, exponent - 2 * format.digits, (bool)((a[i] ^ b[i]) >> 15)};
        grids[i] = magnitude ? exponent - 24 : NOWHERE;
        grid = std::max(grid, grids[i]);
    }
    const int field = c >> 23 & 255;
    const uint32_t fraction = c & 0x7fffff;
    const Number third = {field ? fraction | 0x800000 : gfx12 ? fraction : 0, std::max(field, gfx12 ? 1 : 0) - 150, (bool)(c >> 31)};
    return gfx12 ? sum_gfx12(count, products, grids, grid, third) : sum_gfx11(count, products, grid, third);
}
