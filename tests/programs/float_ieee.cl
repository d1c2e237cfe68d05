// Single precision: add, subtract, multiply, divide, square root, fused multiply-add.
#include "oracle.h"
PROGRAM {
  BEGIN
  float a = as_f(in[0]), b = as_f(in[1]), c = as_f(in[2]);
  out[0] = bits_f(a + b); out[1] = bits_f(a * b); out[2] = bits_f(a / b);
  out[3] = bits_f(__builtin_sqrtf(__builtin_fabsf(c)));
  out[4] = bits_f(__builtin_fmaf(a, b, c));
  out[5] = bits_f((a - b) * c + as_f(in[3]) / as_f(in[4]));
  out[6] = bits_f(1.0f / as_f(in[5]));
  out[7] = bits_f(-a * __builtin_fabsf(b) - as_f(in[6]));
}
