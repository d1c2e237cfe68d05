// Double precision: add, multiply, divide, square root, fused multiply-add.
#include "oracle.h"
PROGRAM {
  BEGIN
  double a = as_d(in[0], in[1]), b = as_d(in[2], in[3]), c = as_d(in[4], in[5]);
  put64(out, bits_d(a + b) ^ bits_d(a * c));
  put64(out + 2, bits_d(a / b));
  put64(out + 4, bits_d(__builtin_sqrt(__builtin_fabs(c))));
  put64(out + 6, bits_d(__builtin_fma(a, b, c)));
}
