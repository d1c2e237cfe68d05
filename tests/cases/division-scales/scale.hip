// v_div_scale_f32 and v_div_scale_f64 of numerators and denominators with nearly every exponent: value and flag go by the fields of
// exponents alone. Held against the rules in ROCm/rocm-systems emulation/rocjitsu (shared/division.h), measured on gfx1100 and gfx1201.
#include "../t.h"

#include <cmath>

template <class Word>
struct Result {
    Word value;
    uint32_t flag;
};

// Of each pair two results: that of the denominator, and that of the numerator.
#define SCALES(name, type, Word)                                                                          \
    __global__ void name(const Word* values, int count, Result<Word>* results) {                          \
        int pair = blockIdx.x * blockDim.x + threadIdx.x;                                                 \
        if (pair >= count * count) return;                                                                \
        Word denominator = values[pair / count], numerator = values[pair % count];                        \
        for (int which = 0; which < 2; which++) {                                                         \
            Word source = which ? numerator : denominator, value;                                         \
            uint32_t flag;                                                                                \
            asm volatile("v_div_scale_" type " %0, vcc_lo, %2, %3, %4\n s_nop 4\n"                        \
                         " v_cndmask_b32 %1, 0, 1, vcc_lo"                                                \
                         : "=&v"(value), "=&v"(flag)                                                      \
                         : "v"(source), "v"(denominator), "v"(numerator)                                  \
                         : "vcc");                                                                        \
            results[2 * pair + which] = {value, flag};                                                    \
        }                                                                                                 \
    }
SCALES(scale_singles, "f32", uint32_t)
SCALES(scale_doubles, "f64", uint64_t)

// A format: digits of the fraction, largest field of an exponent, and the rules' numbers.
struct Singles {
    using Word = uint32_t;
    using Float = float;
    static constexpr int DIGITS = 23, LAST = 255, APART = 96, SCALE = 64, SMALL = 24;
};

struct Doubles {
    using Word = uint64_t;
    using Float = double;
    static constexpr int DIGITS = 52, LAST = 2047, APART = 768, SCALE = 128, SMALL = 53;
};

// The power of two that the value is scaled by, and the flag.
template <class F>
int scaling(int denominator, int numerator, bool of_denominator, uint32_t& flag) {
    const int distance = numerator - denominator;
    flag = distance >= F::APART;
    if (flag) return of_denominator ? F::SCALE : 0;
    if (denominator == 0) return F::SCALE;
    flag = distance <= -F::APART;
    if (denominator >= F::LAST - 2) return flag && !of_denominator ? 0 : -F::SCALE;
    if (flag) return of_denominator ? 0 : F::SCALE;
    return numerator <= F::SMALL ? F::SCALE : 0;
}

template <class F>
Result<typename F::Word> scaled(typename F::Word source, typename F::Word denominator, typename F::Word numerator) {
    using Word = typename F::Word;
    const Word sign = (Word)1 << (sizeof(Word) * 8 - 1), infinite = (Word)F::LAST << F::DIGITS, quiet = (Word)1 << (F::DIGITS - 1);
    auto field = [](Word x) { return (int)(x >> F::DIGITS & F::LAST); };
    Result<Word> result;
    const int power = scaling<F>(field(denominator), field(numerator), source == denominator, result.flag);
    if (!(denominator & ~sign) || !(numerator & ~sign)) {
        result.value = sign | infinite | quiet;
    } else if ((source & ~sign) >= infinite) {
        result.value = (source & ~sign) > infinite ? source | quiet : source;
    } else {
        typename F::Float value;
        memcpy(&value, &source, sizeof value);
        value = std::ldexp(value, power);
        memcpy(&result.value, &value, sizeof value);
    }
    return result;
}

template <class F, class Kernel>
void check(const char* format, Kernel kernel, const std::vector<typename F::Word>& values) {
    const int count = values.size(), pairs = count * count;
    auto memory = dev<Result<typename F::Word>>(2 * pairs);
    kernel<<<(pairs + 255) / 256, 256>>>(up(values), count, memory);
    H(hipDeviceSynchronize());
    const auto results = host(memory, 2 * pairs);
    for (int i = 0; i < 2 * pairs; i++) {
        const auto denominator = values[i / 2 / count], numerator = values[i / 2 % count];
        const auto wanted = scaled<F>(i % 2 ? numerator : denominator, denominator, numerator);
        char what[100];
        snprintf(what, sizeof what, "%s of %llx / %llx, %s", format, (unsigned long long)numerator, (unsigned long long)denominator,
                 i % 2 ? "numerator" : "denominator");
        eq(what, wanted.value, results[i].value);
        eq((what + std::string("'s flag")).c_str(), wanted.flag, results[i].flag);
    }
}

int main() {
    std::vector<uint32_t> singles{0xbf800001, 0x80000123, 0x7fc00001, 0x7f800000};
    for (uint32_t exponent = 0; exponent < 255; exponent += exponent < 30 || exponent > 224 ? 1 : 4)
        for (uint32_t digits : {0x000000u, 0x000001u, 0x2aaaaau, 0x7fffffu}) singles.push_back(exponent << 23 | digits);
    std::vector<uint64_t> doubles{0xbff0000000000001, 0x7ff8000000000001, 0x7ff0000000000000};
    for (uint64_t exponent = 0; exponent < 2047; exponent += exponent < 60 || exponent > 2040 ? 1 : 24)
        for (uint64_t digits : {0x0ull, 0x1ull, 0x5555555555555ull}) doubles.push_back(exponent << 52 | digits);
    check<Singles>("f32", scale_singles, singles);
    check<Doubles>("f64", scale_doubles, doubles);
    return done("division-scales scale");
}
