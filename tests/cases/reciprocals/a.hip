// v_rcp_f32 of all 2^23 mantissas: a polynomial in each of 32 parts, which is what cards give but for 2761 results that are one unit off
// it. Held against the mapping of ROCm/rocm-systems emulation/rocjitsu (util/amdgpu_rcp.h), compared there with a Radeon Pro W7900 and
// a Radeon AI Pro R9700; the single corrections there are only counted here.
#include "../t.h"

// Constant, linear and two quadratic terms of a part.
struct Terms {
    uint32_t constant, linear;
    uint16_t square, slope;
};

static const Terms TERMS[32] = {
    {67108864, 2097138, 65462, 1925}, {65075262, 1971966, 59693, 1705}, {63161283, 1857674, 54582, 1516},
    {61356675, 1753039, 50039, 1352}, {59652323, 1657001, 45986, 1210}, {58040098, 1568644, 42359, 1086},
    {56512727, 1487171, 39104, 977}, {55063683, 1411884, 36174, 882}, {53687091, 1342172, 33529, 798},
    {52377649, 1277499, 31136, 724}, {51130563, 1217390, 28966, 658}, {49941480, 1161426, 26992, 599},
    {48806446, 1109234, 25194, 547}, {47721858, 1060483, 23552, 501}, {46684427, 1014876, 22050, 459},
    {45691141, 972149, 20673, 421}, {44739242, 932065, 19408, 388}, {43826196, 894410, 18244, 357},
    {42949672, 858991, 17171, 330}, {42107522, 825636, 16181, 305}, {41297762, 794186, 15266, 282},
    {40518559, 764500, 14418, 262}, {39768215, 736447, 13632, 243}, {39045157, 709911, 12902, 226},
    {38347922, 684783, 12223, 210}, {37675151, 660966, 11591, 196}, {37025580, 638371, 11002, 183},
    {36398027, 616915, 10452, 171}, {35791394, 596522, 9938, 160}, {35204649, 577124, 9458, 150},
    {34636833, 558658, 9007, 140}, {34087042, 541063, 8585, 131},
};
const size_t CORRECTIONS = 2761;

// A number without so many low bits, rounded to the nearest, ties to even.
static uint64_t rounded(uint64_t number, int shift) {
    const uint64_t rest = number & ((1ull << shift) - 1), half = 1ull << (shift - 1), kept = number >> shift;
    return kept + (rest > half || (rest == half && (kept & 1)));
}

// The polynomial's reciprocal of 1.mantissa.
static uint32_t reciprocal(uint32_t mantissa) {
    if (mantissa == 0) return 0x3f800000;
    const Terms& terms = TERMS[mantissa >> 18];
    const uint64_t x = mantissa & 0x3ffff, product = terms.linear * x;
    const int shift = product >= 1ull << 38 ? 15 : 14;
    const uint64_t linear = rounded(product, shift) << (shift - 14);
    const uint64_t factor = ((uint64_t)terms.square << 18) - terms.slope * x, even = x & ~1ull;
    const uint64_t square = (uint64_t)(((unsigned __int128)factor * even * even) >> 51);
    return 0x3e800000 + (uint32_t)((terms.constant * 16ull - linear + square * 2 + 32) >> 6);
}

__global__ void reciprocals(uint32_t* results) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("v_rcp_f32 %0, %1\n s_nop 4" : "=v"(results[i]) : "v"(0x3f800000u | i));
}

int main() {
    const uint32_t count = 1 << 23;
    auto memory = dev<uint32_t>(count);
    reciprocals<<<count / 256, 256>>>(memory);
    H(hipDeviceSynchronize());
    const auto results = host(memory, count);
    size_t off = 0, further = 0;
    for (uint32_t i = 0; i < count; i++) {
        const int distance = abs((int)(reciprocal(i) - results[i]));
        off += distance == 1;
        further += distance > 1;
    }
    eq("results off the polynomial by one unit", CORRECTIONS, off);
    eq("results further off", 0, further);
    eq("1 / 1", 0x3f800000, results[0]);
    return done("reciprocals");
}
