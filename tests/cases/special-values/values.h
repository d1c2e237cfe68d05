// Singles at the ends of ranges, and all triples of them through one operation of three sources.
#pragma once
#include "../t.h"

static bool is_nan(uint32_t x) { return (x & 0x7fffffff) > 0x7f800000; }
static bool is_zero(uint32_t x) { return !(x & 0x7fffffff); }
static bool is_infinite(uint32_t x) { return (x & 0x7fffffff) == 0x7f800000; }
static bool is_signalling(uint32_t x) { return is_nan(x) && !(x & 0x400000); }
static int field(uint32_t x) { return x >> 23 & 255; }
static uint32_t quiet(uint32_t x) { return x | 0x400000; }

const uint32_t SIGN = 0x80000000, INFINITE = 0x7f800000, INVALID = 0xffc00000;

// 32 numbers and their negatives.
static std::vector<uint32_t> special_values() {
    const uint32_t positive[] = {0x00000000, 0x00000001, 0x00000005, 0x00400000, 0x007fffff, 0x00800000, 0x00800001, 0x0b000000,
                                 0x0c000000, 0x10000000, 0x1f800000, 0x20000000, 0x2d800000, 0x2e000000, 0x30800000, 0x3f000000,
                                 0x3f800000, 0x3fc00000, 0x40490fdb, 0x4f800000, 0x5f800000, 0x6f800000, 0x71000000, 0x7e800000,
                                 0x7f000000, 0x7f7fffff, 0x7f800000, 0x7fc00000, 0x7fc12345, 0x7fa01234, 0x7f800001, 0x00000700};
    std::vector<uint32_t> values;
    for (uint32_t value : positive) {
        values.push_back(value);
        values.push_back(value | SIGN);
    }
    return values;
}

// Runs a kernel of (values, their number, results), one thread for each triple, and holds its results against those of a function.
template <class Kernel, class Wanted>
void check_triples(const char* name, Kernel kernel, Wanted wanted) {
    const auto values = special_values();
    const size_t n = values.size(), triples = n * n * n;
    auto memory = dev<uint32_t>(triples);
    kernel<<<triples / 256, 256>>>(up(values), (int)n, memory);
    H(hipDeviceSynchronize());
    const auto results = host(memory, triples);
    for (size_t i = 0; i < triples; i++) {
        const uint32_t a = values[i / n / n], b = values[i / n % n], c = values[i % n];
        char what[80];
        snprintf(what, sizeof what, "%s(%08x, %08x, %08x)", name, a, b, c);
        eq(what, wanted(a, b, c), results[i]);
    }
}

// A kernel for it from the text of an instruction.
#define TRIPLES(name, text)                                                      \
    __global__ void name(const uint32_t* values, int n, uint32_t* results) {     \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                           \
        asm volatile(text                                                        \
                     : "=v"(results[i])                                          \
                     : "v"(values[i / n / n]), "v"(values[i / n % n]), "v"(values[i % n])); \
    }
