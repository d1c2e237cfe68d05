// Rotations, reversals, counts, saturation, carry-less tricks.
#include "oracle.h"
PROGRAM {
  BEGIN
  uint a = in[0], b = in[1];
  out[0] = __builtin_rotateleft32(a, b) ^ __builtin_rotateright32(b, a);
  out[1] = __builtin_bitreverse32(a) + __builtin_bswap32(b);
  out[2] = (uint)__builtin_popcount(a) | (uint)__builtin_clz(b | 1) << 8 | (uint)__builtin_ctz(a | 0x80000000u) << 16;
  out[3] = __builtin_elementwise_add_sat(a, b) ^ __builtin_elementwise_sub_sat(in[2], in[3]);
  out[4] = (uint)__builtin_elementwise_add_sat((int)a, (int)b) ^ (uint)__builtin_elementwise_sub_sat((int)in[2], (int)in[3]);
  out[5] = (uint)__builtin_elementwise_abs((int)in[4]) + (a & -a) + (b & (b - 1));
  out[6] = (uint)((((ulong)a << 32) | b) >> (in[5] & 31));
  // Of ints: clang before version 20 promotes smaller ones, later ones do not.
  short s = __builtin_elementwise_add_sat((int)(short)a, (int)(short)b);
  ushort u = __builtin_elementwise_sub_sat((int)(ushort)in[2], (int)(ushort)in[3]);
  uchar t = __builtin_elementwise_add_sat((int)(uchar)in[4], (int)(uchar)in[5]);
  out[7] = (uint)(ushort)s | (uint)u << 16;
  out[7] += t;
}
