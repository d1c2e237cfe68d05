// Dot products with values of op_sel, op_sel_hi, neg and neg_hi that compilers do not write: of integers, too, op_sel and op_sel_hi
// choose halves. Held against results of a gfx1200 card in yoshou/amdgpu-sim (tests/isa/vop3p.rs).
#include "../t.h"

enum Operation { DOT2_F32_F16 = 0x13, DOT4_I32_IU8 = 0x16, DOT4_U32_U8 = 0x17 };

struct Row {
    Operation operation;
    int op_sel, op_sel_hi, neg, neg_hi;
    uint32_t result;
};

constexpr Row ROWS[] = {
    {DOT2_F32_F16, 0, 7, 0, 0, 0x407fff7f},
    {DOT2_F32_F16, 1, 7, 0, 0, 0x3ffffefe},
    {DOT2_F32_F16, 2, 7, 0, 0, 0x410fffe0},
    {DOT2_F32_F16, 4, 7, 0, 0, 0x407fff7f},
    {DOT2_F32_F16, 7, 7, 0, 0, 0x413fffe0},
    {DOT2_F32_F16, 0, 0, 0, 0, 0xc0800040},
    {DOT2_F32_F16, 0, 1, 0, 0, 0xc0c00040},
    {DOT2_F32_F16, 0, 2, 0, 0, 0x3f7ffdfe},
    {DOT2_F32_F16, 0, 4, 0, 0, 0xc0800040},
    {DOT2_F32_F16, 0, 7, 1, 0, 0x40ffffc0},
    {DOT2_F32_F16, 0, 7, 2, 0, 0x40ffffc0},
    {DOT2_F32_F16, 0, 7, 4, 0, 0x40800040},
    {DOT2_F32_F16, 0, 7, 0, 1, 0xc1000020},
    {DOT2_F32_F16, 0, 7, 0, 2, 0xc1000020},
    {DOT2_F32_F16, 0, 7, 0, 4, 0x40800040},
    {DOT4_I32_IU8, 0, 7, 0, 0, 0xb8007580},
    {DOT4_I32_IU8, 1, 7, 0, 0, 0xb8007880},
    {DOT4_I32_IU8, 2, 7, 0, 0, 0xb80057f8},
    {DOT4_I32_IU8, 4, 7, 0, 0, 0xb8007580},
    {DOT4_I32_IU8, 7, 7, 0, 0, 0xb8005900},
    {DOT4_I32_IU8, 0, 0, 0, 0, 0xb8009200},
    {DOT4_I32_IU8, 0, 1, 0, 0, 0xb8009500},
    {DOT4_I32_IU8, 0, 2, 0, 0, 0xb8007478},
    {DOT4_I32_IU8, 0, 4, 0, 0, 0xb8009200},
    {DOT4_I32_IU8, 0, 7, 1, 0, 0xb8007580},
    {DOT4_I32_IU8, 0, 7, 2, 0, 0xb8003980},
    {DOT4_I32_IU8, 0, 7, 4, 0, 0xb8007580},
    {DOT4_I32_IU8, 0, 7, 0, 1, 0xb8007580},
    {DOT4_I32_IU8, 0, 7, 0, 2, 0xb8007580},
    {DOT4_I32_IU8, 0, 7, 0, 4, 0xb8007580},
    {DOT4_U32_U8, 0, 7, 0, 0, 0xb8007580},
    {DOT4_U32_U8, 1, 7, 0, 0, 0xb8007880},
    {DOT4_U32_U8, 2, 7, 0, 0, 0xb80057f8},
    {DOT4_U32_U8, 4, 7, 0, 0, 0xb8007580},
    {DOT4_U32_U8, 7, 7, 0, 0, 0xb8005900},
    {DOT4_U32_U8, 0, 0, 0, 0, 0xb8009200},
    {DOT4_U32_U8, 0, 1, 0, 0, 0xb8009500},
    {DOT4_U32_U8, 0, 2, 0, 0, 0xb8007478},
    {DOT4_U32_U8, 0, 4, 0, 0, 0xb8009200},
    {DOT4_U32_U8, 0, 7, 1, 0, 0xb8007580},
    {DOT4_U32_U8, 0, 7, 2, 0, 0xb8007580},
    {DOT4_U32_U8, 0, 7, 4, 0, 0xb8007580},
    {DOT4_U32_U8, 0, 7, 0, 1, 0xb8007580},
    {DOT4_U32_U8, 0, 7, 0, 2, 0xb8007580},
    {DOT4_U32_U8, 0, 7, 0, 4, 0xb8007580},
};
const int COUNT = sizeof ROWS / sizeof *ROWS;

// The instruction's words: of v20, v22, v24 to v26.
constexpr int low_word(Row row) {
    return (int)(0xcc000000u | row.operation << 16 | row.op_sel_hi >> 2 << 14 | row.op_sel << 11 | row.neg_hi << 8 | 26);
}

constexpr int high_word(Row row) {
    return (int)(0x114u | 0x116u << 9 | 0x118u << 18 | (row.op_sel_hi & 3u) << 27 | (unsigned)row.neg << 29);
}

template <int n>
__global__ void dot(uint32_t* results, uint32_t a, uint32_t b, uint32_t c) {
    constexpr int low = low_word(ROWS[n]), high = high_word(ROWS[n]);
    asm volatile(
        "v_mov_b32 v20, %1\n v_mov_b32 v22, %2\n v_mov_b32 v24, %3\n s_nop 4\n"
        ".long %4, %5\n s_nop 7\n v_mov_b32 %0, v26"
        : "=v"(results[n])
        : "v"(a), "v"(b), "v"(c), "i"(low), "i"(high)
        : "v20", "v22", "v24", "v26");
}

template <int n = 0>
void dots(uint32_t* results) {
    if constexpr (n < COUNT) {
        dot<n><<<1, 1>>>(results, 0x40003c00, 0x4200c000, 0xb8003800);
        dots<n + 1>(results);
    }
}

int main() {
    auto memory = dev<uint32_t>(COUNT);
    dots(memory);
    H(hipDeviceSynchronize());
    const auto results = host(memory, COUNT);
    for (int i = 0; i < COUNT; i++) {
        const Row& row = ROWS[i];
        char what[80];
        snprintf(what, sizeof what, "operation %x op_sel %d %d neg %d %d", row.operation, row.op_sel, row.op_sel_hi, row.neg,
                 row.neg_hi);
        eq(what, row.result, results[i]);
    }
    return done("dot-selects");
}
