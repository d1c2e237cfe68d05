// ds_add_f32 takes denormals for zeros where MODE says so, and rounds to nearest whatever MODE says; v_add_f32 rounds as MODE says; a
// number wins over a NaN in ds_min_f32. Held against LLVM (llvm-project 89468, SIISelLowering's expansion of float atomics).
#include "../t.h"

#define ROUND(number) "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), " #number "\n"
#define DENORMALS(number) "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), " #number "\n"
#if defined(__gfx1201__)
#define WAIT "s_wait_dscnt 0\n"
#define MIN "ds_min_num_f32 %0, %1\n"
#else
#define WAIT "s_waitcnt lgkmcnt(0)\n"
#define MIN "ds_min_f32 %0, %1\n"
#endif

// Puts a number in LDS, does an atomic of `operand` in a mode, and has what is there then.
#define ATOMIC(result, before, operand, set, operation, reset)                                               \
    word = (before);                                                                                         \
    __syncthreads();                                                                                         \
    asm volatile("s_nop 0\n" set operation WAIT reset : : "v"(address), "v"((uint32_t)(operand)) : "memory"); \
    __syncthreads();                                                                                         \
    (result) = word;

const uint32_t ONE = 0x3f800000, SMALL = 0x30800000 /* 2^-30 */, NAN_55 = 0x7fc00055, THREE = 0x40400000;

__global__ void atomics(uint32_t* results) {
    __shared__ volatile uint32_t word;
    const uint32_t address = (uint32_t)(uintptr_t)(__attribute__((address_space(3))) uint32_t*)&word;
    ATOMIC(results[0], ONE, SMALL, ROUND(5), "ds_add_f32 %0, %1\n", ROUND(0))
    ATOMIC(results[1], ONE | 0x80000000, SMALL, ROUND(15), "ds_add_f32 %0, %1\n", ROUND(0))
    ATOMIC(results[2], 0, 5, DENORMALS(0), "ds_add_f32 %0, %1\n", DENORMALS(3))
    ATOMIC(results[3], 3, 5, DENORMALS(3), "ds_add_f32 %0, %1\n", DENORMALS(3))
    ATOMIC(results[4], NAN_55, THREE, "", MIN, "")
    uint32_t sum;
    asm volatile(ROUND(5) "v_add_f32 %0, %1, %2\n" ROUND(0) : "=v"(sum) : "v"(ONE), "v"(SMALL));
    results[5] = sum;
}

int main() {
    auto memory = dev<uint32_t>(6);
    atomics<<<1, 1>>>(memory);
    H(hipDeviceSynchronize());
    const auto results = host(memory, 6);
    eq("ds_add_f32 to nearest, MODE upwards", ONE, results[0]);
    eq("ds_add_f32 to nearest, MODE towards zero", ONE | 0x80000000, results[1]);
    eq("ds_add_f32, denormals off in MODE", 0, results[2]);
    eq("ds_add_f32, denormals on in MODE", 8, results[3]);
    eq("ds_min_f32 of a NaN and 3", THREE, results[4]);
    eq("v_add_f32 upwards", 0x3f800001, results[5]);
    return done("float-atomics lds");
}
