// Division and remainder, signed and unsigned, 32 and 64 bits.
#include "oracle.h"
PROGRAM {
  BEGIN
  uint a = in[0], b = in[1] | 1;
  out[0] = a / b + a % b * 3;
  int c = (int)in[2], d = (int)(in[3] >> (in[4] & 31)) | 1;
  if (d == -1) d = 7;
  out[1] = (uint)(c / d); out[2] = (uint)(c % d); out[3] = a / 10 + c % 1000;
  ulong e = ((ulong)in[4] << 32) | in[5], f = (((ulong)in[6] << 32 | in[7]) >> (in[0] & 63)) | 1;
  put64(out + 4, e / f ^ e % f);
  long g = (long)e, h = (long)f;
  if (h == -1) h = 3;
  put64(out + 6, (ulong)(g / h) ^ (ulong)(g % h) * 5);
}
