// Bit fields: packing, unpacking with sign and without.
#pragma OPENCL EXTENSION __cl_clang_bitfields : enable
#include "oracle.h"
struct fields { int a : 5; uint b : 11; int c : 13; uint d : 3; ulong e : 40; long f : 24; };
PROGRAM {
  BEGIN
  struct fields x = {0};
  x.a = (int)in[0]; x.b = in[1]; x.c = (int)in[2]; x.d = in[3]; x.e = (ulong)in[4] << 9 | in[5]; x.f = (int)in[6];
  out[0] = (uint)(x.a + (int)x.b + x.c + (int)x.d);
  put64(out + 1, (ulong)x.e * 3 + (ulong)(long)x.f);
  x.a += 3; x.b -= x.d; x.c ^= x.a;
  out[3] = (uint)x.a << 24 ^ x.b << 13 ^ (uint)x.c;
  out[4] = (in[7] >> 5 & 0x3ff) | (in[0] & 0x3ff) << 10 | in[1] << 20;
  out[5] = (uint)((int)(in[2] << 7) >> 19);
  out[6] = (in[3] & 0xff00ff00u) | (in[4] & 0x00ff00ffu);
}
