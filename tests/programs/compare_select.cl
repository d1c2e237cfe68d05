// Comparisons and selections with NaN, infinities, zeros of both signs and denormals.
#include "oracle.h"
PROGRAM {
  BEGIN
  float a = as_f(in[0]), b = as_f(in[1]);
  double c = as_d(in[2], in[3]), d = as_d(in[4], in[5]);
  out[0] = (a < b) | (a <= b) << 1 | (a > b) << 2 | (a >= b) << 3 | (a == b) << 4 | (a != b) << 5 | !(a < b) << 6 |
           !(a >= b) << 7 | (a < b || a > b) << 8 | (a != a || b != b) << 9;
  out[1] = (c < d) | (c <= d) << 1 | (c > d) << 2 | (c >= d) << 3 | (c == d) << 4 | (c != d) << 5 | !(c <= d) << 6;
  out[2] = bits_f(a < b ? a : b);
  out[3] = bits_f(a >= 0.0f ? as_f(in[6]) : -as_f(in[6]));
  put64(out + 4, bits_d(c > d ? c : d));
  out[6] = (uint)(__builtin_isinf(a) != 0) | (uint)(__builtin_fabsf(b) < 0x1p-126f) << 1 | (uint)(__builtin_signbit(a) != 0) << 2 |
           (uint)(__builtin_isnormal(b) != 0) << 3 | (uint)(__builtin_isfinite(c) != 0) << 4;
  out[7] = bits_f(a == b ? a + 1.0f : __builtin_copysignf(a, b));
}
