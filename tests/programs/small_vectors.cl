// Vectors of bytes and of shorts.
#include "oracle.h"
PROGRAM {
  BEGIN
  uchar4 a = __builtin_bit_cast(uchar4, in[0]), b = __builtin_bit_cast(uchar4, in[1]);
  char4 c = __builtin_bit_cast(char4, in[2]);
  out[0] = __builtin_bit_cast(uint, (uchar4)(a + b * (uchar)3));
  out[1] = __builtin_bit_cast(uint, (uchar4)((a >> (uchar)1) ^ b.wzyx));
  out[2] = __builtin_bit_cast(uint, (char4)(c > (char)0 ? c : -c));
  short2 d = __builtin_bit_cast(short2, in[3]), e = __builtin_bit_cast(short2, in[4]);
  out[3] = __builtin_bit_cast(uint, (short2)(d * e + (short)7));
  out[4] = __builtin_bit_cast(uint, (short2)__builtin_elementwise_max(d, e));
  ushort2 f = __builtin_bit_cast(ushort2, in[5]);
  out[5] = __builtin_bit_cast(uint, (ushort2)(__builtin_elementwise_min(f, (ushort2)(300, 40000)) - f.yx));
  int4 sum = __builtin_convertvector(c, int4) + __builtin_convertvector(a, int4);
  out[6] = (uint)(sum.x + sum.y * 3 + sum.z * 5 + sum.w * 7);
  out[7] = (uint)(a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w) + in[6];
}
