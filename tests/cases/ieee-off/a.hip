// MODE.IEEE: whether operations make signalling NaNs quiet, and who wins in a minimum of one and a number. Held against
// `quiets_nan` of ROCm/rocm-systems emulation/rocjitsu (shared/fp_mode.h) and LLVM (llvm-project 139622, 175867, 208733).
#include "../t.h"

#if defined(__gfx1201__)
#define MIN "v_min_num_f32"
#define MAX "v_max_num_f32"
#else
#define MIN "v_min_f32"
#define MAX "v_max_f32"
#endif

enum { MINIMUM, MAXIMUM, PRODUCT, SUM, RECIPROCAL, HALF, COUNT };

// Of pairs of operands, the results of each operation, one behind the other; at last MODE.
__global__ void operations(const uint32_t* first, const uint32_t* second, uint32_t* results) {
    int pair = threadIdx.x, pairs = blockDim.x;
    uint32_t a = first[pair], b = second[pair], r;
    asm volatile(MIN " %0, %1, %2" : "=v"(r) : "v"(a), "v"(b));
    results[MINIMUM * pairs + pair] = r;
    asm volatile(MAX " %0, %1, %2" : "=v"(r) : "v"(a), "v"(b));
    results[MAXIMUM * pairs + pair] = r;
    asm volatile("v_mul_f32 %0, %1, %2" : "=v"(r) : "v"(a), "v"(b));
    results[PRODUCT * pairs + pair] = r;
    asm volatile("v_add_f32 %0, %1, %2" : "=v"(r) : "v"(a), "v"(b));
    results[SUM * pairs + pair] = r;
    asm volatile("v_rcp_f32 %0, %1\n s_nop 4" : "=v"(r) : "v"(a));
    results[RECIPROCAL * pairs + pair] = r;
    asm volatile("v_cvt_f16_f32 %0, %1" : "=v"(r) : "v"(a));
    results[HALF * pairs + pair] = r;
    asm volatile("s_getreg_b32 %0, hwreg(HW_REG_MODE)" : "=s"(r));
    results[COUNT * pairs] = r;
}

static const uint32_t SIGNALLING = 0x7fa01234, QUIETED = 0x7fe01234, ONE = 0x3f800000;

int main() {
    const std::vector<uint32_t> first{SIGNALLING, ONE, SIGNALLING, QUIETED, ONE};
    const std::vector<uint32_t> second{ONE, SIGNALLING, SIGNALLING, ONE, QUIETED};
    const size_t pairs = first.size();
    auto memory = dev<uint32_t>(COUNT * pairs + 1);
    operations<<<1, pairs>>>(up(first), up(second), memory);
    H(hipDeviceSynchronize());
    const auto results = host(memory, COUNT * pairs + 1);
    auto result = [&](int operation, int pair) { return results[operation * pairs + pair]; };
    const bool has_bit = !family("gfx12");
    if (has_bit) eq("MODE.IEEE", IEEE, results[COUNT * pairs] >> 9 & 1);
    const bool numbers_win = !has_bit || !IEEE;
    const uint32_t kept = has_bit && !IEEE ? SIGNALLING : QUIETED;
    eq("min(signalling, 1)", numbers_win ? ONE : QUIETED, result(MINIMUM, 0));
    eq("min(1, signalling)", numbers_win ? ONE : QUIETED, result(MINIMUM, 1));
    eq("min(signalling, signalling)", kept, result(MINIMUM, 2));
    eq("min(quiet, 1)", ONE, result(MINIMUM, 3));
    eq("max(signalling, 1)", numbers_win ? ONE : QUIETED, result(MAXIMUM, 0));
    eq("max(1, signalling)", numbers_win ? ONE : QUIETED, result(MAXIMUM, 1));
    eq("max(signalling, signalling)", kept, result(MAXIMUM, 2));
    eq("max(1, quiet)", ONE, result(MAXIMUM, 4));
    eq("signalling * 1", kept, result(PRODUCT, 0));
    eq("signalling + 1", kept, result(SUM, 0));
    eq("1 / signalling", kept, result(RECIPROCAL, 0));
    // Conversions make it quiet always.
    eq("signalling as a half", 0x7e00, result(HALF, 0) & 0x7e00);
    return done("ieee-off");
}
