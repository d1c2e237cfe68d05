// Integer matrices of 8 by 8 through LDS, one for each work-group.
#include "oracle.h"
PROGRAM {
  __local int a[8][8];
  __local int b[8][8];
  BEGIN
  uint x = get_local_id(0) & 7, y = get_local_id(0) >> 3;
  a[y][x] = (int)in[0]; b[y][x] = (int)in[1];
  barrier(1);
  uint product = 0;
  long wide = 0;
  for (uint k = 0; k < 8; k++) {
    product += (uint)a[y][k] * (uint)b[k][x];
    wide += (long)(a[y][k] >> 4) * (b[k][x] >> 4);
  }
  out[0] = product; put64(out + 1, (ulong)wide);
}
