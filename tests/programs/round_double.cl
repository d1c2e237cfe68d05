// Rounding of doubles, and their conversion to 32-bit integers.
#include "oracle.h"
PROGRAM {
  BEGIN
  double a = as_d(in[0], in[1]), b = (double)unit(in[2]) * 1e6;
  put64(out, bits_d(__builtin_rint(a)) ^ bits_d(__builtin_floor(a)));
  put64(out + 2, bits_d(__builtin_ceil(a)) ^ bits_d(__builtin_trunc(a)));
  out[4] = (uint)(int)b; out[5] = (uint)(int)__builtin_rint(b) + (uint)__builtin_fabs(b);
  put64(out + 6, bits_d(b - __builtin_floor(b)));
}
