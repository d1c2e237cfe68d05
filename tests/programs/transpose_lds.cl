// Transposes tiles of 8 by 8 through LDS, padded against bank conflicts, as words and as bytes.
#include "oracle.h"
PROGRAM {
  __local uint tile[WORDS][8][9];
  __local uchar bytes[64][4];
  BEGIN
  uint local_id = get_local_id(0), x = local_id & 7, y = local_id >> 3;
  for (uint k = 0; k < WORDS; k++) tile[k][y][x] = in[k];
  for (uint k = 0; k < 4; k++) bytes[local_id][k] = (uchar)(in[k] >> 8 * k);
  barrier(1);
  for (uint k = 0; k < WORDS; k++) out[k] = tile[k][x][y];
  uint other = local_id ^ 37;
  out[7] += bytes[other][0] | bytes[other][1] << 8 | bytes[other][2] << 16 | (uint)bytes[other][3] << 24;
}
