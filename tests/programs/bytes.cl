// Loads and stores of bytes and shorts, signed and not, aligned and not.
#include "oracle.h"
PROGRAM {
  BEGIN
  __global const uchar* from = (__global const uchar*)in;
  __global uchar* to = (__global uchar*)out;
  for (uint k = 0; k < 16; k++) to[k] = (uchar)(from[31 - k] + k);
  __global const char* chars = (__global const char*)in;
  int sum = 0;
  for (uint k = 0; k < 32; k++) sum += chars[k] * (int)k;
  out[4] = (uint)sum;
  __global const short* shorts = (__global const short*)in;
  out[5] = (uint)(shorts[1] * shorts[3] + (int)((__global const ushort*)in)[5]);
  uint word;
  __builtin_memcpy(&word, from + 5 + (in[7] & 3), 4);
  out[6] = word;
  ((__global ushort*)out)[14] = (ushort)(shorts[2] - shorts[7]);
  ((__global ushort*)out)[15] = (ushort)from[3];
}
