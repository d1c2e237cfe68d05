// Conversions: between all widths, saturating, and with every direction of rounding.
#include "oracle.h"
static inline int sat_int(float x) {
  return x != x ? 0 : x >= 0x1p31f ? 0x7fffffff : x <= -0x1p31f ? (int)0x80000000 : (int)x;
}
static inline uint sat_uint(float x) { return x != x || x <= 0.0f ? 0 : x >= 0x1p32f ? 0xffffffffu : (uint)x; }
static inline long sat_long(double x) {
  return x != x ? 0 : x >= 0x1p63 ? 0x7fffffffffffffffl : x <= -0x1p63 ? (long)(1ul << 63) : (long)x;
}
static inline uchar sat_uchar(float x) { return x != x || x <= 0.0f ? 0 : x >= 255.0f ? 255 : (uchar)x; }
PROGRAM {
  BEGIN
  float a = as_f(in[0]);
  double b = as_d(in[1], in[2]);
  long g = (long)((ulong)in[3] << 32 | in[4]);
  float scaled = unit(in[5]) * 1000.0f;
  out[0] = (uint)sat_int(a) ^ sat_uint(as_f(in[6])) * 3;
  put64(out + 1, (ulong)sat_long(b));
  out[3] = bits_f((float)(int)in[3]) ^ bits_f((float)in[4]) * 5 ^ bits_f((float)b) * 7;
  put64(out + 4, bits_d((double)(int)in[3]) + bits_d((double)in[4]) + bits_d((double)a) + bits_d((double)g));
  out[6] = bits_f((float)g) + bits_f((float)(ulong)g) * 3 + bits_f((float)(uchar)in[7]) + bits_f((float)(short)in[7]);
  out[7] = (uint)sat_uchar(scaled) | (uint)(int)__builtin_rintf(scaled) << 8;
  out[7] += (uint)(int)__builtin_floorf(scaled) * 31 + (uint)(int)__builtin_ceilf(scaled) * 37 +
            (uint)(int)__builtin_truncf(scaled) * 41 + bits_f(__builtin_rintf(a)) + bits_f(__builtin_floorf(as_f(in[6])));
}
