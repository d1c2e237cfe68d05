// 64-bit add, subtract, multiply, shifts and comparisons.
#include "oracle.h"
PROGRAM {
  BEGIN
  ulong a = ((ulong)in[0] << 32) | in[1], b = ((ulong)in[2] << 32) | in[3];
  ulong acc = in[4];
  for (uint k = 0; k < 8; k++) {
    acc += a * b;
    a = (a << (b & 63)) ^ (a >> (in[5] & 63));
    b = (ulong)((long)b >> (k * 7 & 63)) - acc;
    acc ^= a < b ? a : b;
    acc += (ulong)((long)a > (long)b ? (long)a : (long)b);
  }
  put64(out, acc); put64(out + 2, a); put64(out + 4, b);
  out[6] = (a == b) | (a <= acc) << 1 | ((long)a < (long)acc) << 2;
  out[7] = (uint)__builtin_popcountl(acc) + (uint)__builtin_clzl(a | 1) * 64 + (uint)__builtin_ctzl(b | 1ul << 63) * 4096;
}
