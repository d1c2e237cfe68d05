// Mixes of 32-bit integer operations: multiply low and high, add with carry, xor shifts, minima and maxima.
#include "oracle.h"
PROGRAM {
  BEGIN
  uint a = in[0], b = in[1], c = in[2];
  for (uint k = 0; k < 16; k++) {
    a = a * 0x85ebca6bu + b;
    b ^= (uint)(((ulong)a * c) >> 32);
    c = (c - a) ^ (b >> (a & 31));
    a ^= (uint)(((long)(int)b * (int)c) >> 32);
    b += (a > c ? a : c) - (uint)((int)a < (int)b ? (int)a : (int)b);
  }
  out[0] = a; out[1] = b; out[2] = c;
  out[3] = (in[3] & 0xffffff) * (in[4] & 0xffffff) + in[5];
  out[4] = ((int)(in[3] << 8) >> 8) * ((int)(in[4] << 8) >> 8);
  out[5] = (in[0] & in[1]) | (~in[0] & in[2]);
  out[6] = in[0] + in[1] + in[2];
  out[7] = (uint)(in[3] < in[4] ? in[3] - in[4] : in[4] - in[3]) + in[6];
}
