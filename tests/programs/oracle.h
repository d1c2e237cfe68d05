// What the programs share. Each work-item has WORDS words of input, mixed from random and extreme values, and as
// many of output.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define WORDS 8
#define PROGRAM __kernel void program(__global uint* restrict out, __global const uint* restrict in)
#define BEGIN uint item = get_global_id(0); in += item * WORDS; out += item * WORDS;

static inline float as_f(uint x) { return __builtin_bit_cast(float, x); }
static inline double as_d(uint hi, uint lo) { return __builtin_bit_cast(double, ((ulong)hi << 32) | lo); }
static inline half as_h(uint x) { return __builtin_bit_cast(half, (ushort)x); }
// Which NaN an operation makes is not IEEE 754's to say: all count as one.
static inline uint bits_f(float x) { return x != x ? 0x7fc00000u : __builtin_bit_cast(uint, x); }
static inline ulong bits_d(double x) { return x != x ? 0x7ff8000000000000ul : __builtin_bit_cast(ulong, x); }
static inline uint bits_h(half x) { return x != x ? 0x7e00u : (uint)__builtin_bit_cast(ushort, x); }
static inline void put64(__global uint* out, ulong x) { out[0] = (uint)x; out[1] = (uint)(x >> 32); }
// A float from -1 to 1.
static inline float unit(uint x) { return (float)(int)x * 0x1p-31f; }
