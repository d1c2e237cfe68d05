// Shifts of every width by every amount.
#include "oracle.h"
PROGRAM {
  BEGIN
  uint s = in[7];
  out[0] = in[0] << (s & 31) ^ in[1] >> (s >> 5 & 31);
  out[1] = (uint)((int)in[2] >> (s >> 10 & 31));
  put64(out + 2, (((ulong)in[3] << 32 | in[4]) << (s & 63)) ^ (ulong)((long)((ulong)in[4] << 32 | in[3]) >> (s >> 6 & 63)));
  out[4] = (ushort)((ushort)in[5] << (s & 15)) | (uint)(ushort)((short)in[5] >> (s >> 4 & 15)) << 16;
  out[5] = (uchar)((uchar)in[6] >> (s & 7)) | (uint)(uchar)((char)in[6] >> (s >> 3 & 7)) << 8;
  out[6] = (in[0] << 3) + in[1];
  out[7] = (in[0] << (s & 31) | in[1]) + ((in[2] + in[3]) << (s >> 8 & 31));
}
