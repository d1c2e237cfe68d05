// Half precision: arithmetic, packed and not, and conversions from and to single.
#include "oracle.h"
PROGRAM {
  BEGIN
  half a = as_h(in[0]), b = as_h(in[1]), c = as_h(in[2]);
  out[0] = bits_h(a + b) | bits_h(a * b) << 16;
  out[1] = bits_h(a - c) | bits_h(b / c) << 16;
  half2 d = __builtin_bit_cast(half2, in[3]), e = __builtin_bit_cast(half2, in[4]);
  half2 sum = d + e, product = d * e;
  out[2] = bits_h(sum.x) | bits_h(sum.y) << 16;
  out[3] = bits_h(product.x) | bits_h(product.y) << 16;
  out[4] = bits_f((float)a) ^ bits_f((float)b) * 3;
  out[5] = bits_h((half)as_f(in[5])) | bits_h((half)unit(in[6])) << 16;
  out[6] = (a < b) | (a == c) << 1 | (b >= c) << 2 | (a != a) << 3;
  out[7] = bits_h((half)(int)(short)in[7]) | bits_h((half)(ushort)in[6]) << 16;
}
