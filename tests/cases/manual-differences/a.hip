// Where a gfx1201 card does something else than its ISA manual's text: NaNs in v_minimum and v_maximum and in conversions, v_fract in
// each rounding mode, output modifiers at the ends of the range. Held against notes of ROCm/rocm-systems emulation/rocjitsu
// (shared/minmax.h, conversion.h, fract.h, frexp.h, output_modifier.h), "ISA discrepancy".
#include "../t.h"

enum Source { QUIET, SIGNALLING, NEGATIVE_NAN, FRACTION, TWO, MINUS_ZERO, LARGEST, DENORMAL, SMALLEST, OTHER_SIGNALLING };
static const std::vector<uint32_t> SOURCES{0x7fc00001, 0x7fa00002, 0xffc00003, 0xbe999999, 0x40000000,
                                           0x80000000, 0x7f7fffff, 0x00000123, 0x80800000, 0x7fa01234};
// MODE's rounding (bits 3:0) and denormals (7:4, kept).
#define NEAREST 0xf0
#define UP 0xf5
#define DOWN 0xfa
#define ZERO 0xff

// Number, mode, operation, sources, what the card gives.
#define ROWS                                                                        \
    ROW(0, NEAREST, "v_minimum_f32 %0, %1, %2", QUIET, SIGNALLING, 0x7fc00001)      \
    ROW(1, NEAREST, "v_maximum_f32 %0, %1, %2", QUIET, SIGNALLING, 0x7fc00001)      \
    ROW(2, NEAREST, "v_minimum_f32 %0, %1, %2", SIGNALLING, QUIET, 0x7fe00002)      \
    ROW(3, NEAREST, "v_cvt_floor_i32_f32 %0, %1", QUIET, QUIET, 0x7fffffff)         \
    ROW(4, NEAREST, "v_cvt_floor_i32_f32 %0, %1", NEGATIVE_NAN, QUIET, 0x80000000)  \
    ROW(5, NEAREST, "v_cvt_nearest_i32_f32 %0, %1", QUIET, QUIET, 0x7fffffff)       \
    ROW(6, NEAREST, "v_cvt_nearest_i32_f32 %0, %1", NEGATIVE_NAN, QUIET, 0x80000000) \
    ROW(7, NEAREST, "v_fract_f32 %0, %1", FRACTION, QUIET, 0x3f333334)              \
    ROW(8, UP, "v_fract_f32 %0, %1", FRACTION, QUIET, 0x3f333334)                   \
    ROW(9, DOWN, "v_fract_f32 %0, %1", FRACTION, QUIET, 0x3f333333)                 \
    ROW(10, ZERO, "v_fract_f32 %0, %1", FRACTION, QUIET, 0x3f333333)                \
    ROW(11, DOWN, "v_fract_f32 %0, %1", TWO, QUIET, 0)                              \
    ROW(12, DOWN, "v_fract_f32 %0, %1", MINUS_ZERO, QUIET, 0)                       \
    ROW(13, NEAREST, "v_frexp_mant_f32 %0, %1", OTHER_SIGNALLING, QUIET, 0x7fe01234) \
    ROW(14, NEAREST, "v_mul_f32 %0, %1, %2 mul:2", MINUS_ZERO, TWO, 0)              \
    ROW(15, NEAREST, "v_min_num_f32 %0, %1, %2 mul:2", DENORMAL, TWO, 0)            \
    ROW(16, NEAREST, "v_min_num_f32 %0, %1, %2 div:2", SMALLEST, TWO, 0x80000000)   \
    ROW(17, NEAREST, "v_min_num_f32 %0, %1, %2 mul:2", LARGEST, LARGEST, 0x7f800000) \
    ROW(18, ZERO, "v_min_num_f32 %0, %1, %2 mul:2", LARGEST, LARGEST, 0x7f7fffff)   \
    ROW(19, DOWN, "v_min_num_f32 %0, %1, %2 mul:4", LARGEST, LARGEST, 0x7f7fffff)
const int COUNT = 20;

#define TEXT(number) #number
#define SET(mode) "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 8), " TEXT(mode) "\n"

__global__ void operations(const uint32_t* sources, uint32_t* results) {
#define ROW(row, mode, operation, first, second, wanted)           \
    asm volatile(SET(mode) operation "\n" SET(NEAREST)             \
                 : "=v"(results[row])                              \
                 : "v"(sources[first]), "v"(sources[second]));
    ROWS
#undef ROW
}

int main() {
    auto memory = dev<uint32_t>(COUNT);
    operations<<<1, 1>>>(up(SOURCES), memory);
    H(hipDeviceSynchronize());
    const auto results = host(memory, COUNT);
#define ROW(row, mode, operation, first, second, wanted) eq(TEXT(row) ": " operation, wanted, results[row]);
    ROWS
#undef ROW
    return done("manual-differences");
}
