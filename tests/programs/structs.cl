// Structures copied whole, packed and padded, in memory and in private arrays.
#include "oracle.h"
struct point { float x, y; uchar tag; ushort weight; };
struct __attribute__((packed)) record { uchar kind; uint value; ushort extra; };
struct pair { struct point points[2]; struct record record; };
PROGRAM {
  BEGIN
  struct pair pairs[3];
  for (uint k = 0; k < 3; k++) {
    struct point p = {unit(in[k]), unit(in[k + 1]), (uchar)in[2], (ushort)in[3]};
    pairs[k].points[0] = p;
    p.weight = (ushort)(p.weight + k);
    pairs[k].points[1] = p;
    pairs[k].record.kind = (uchar)k;
    pairs[k].record.value = in[k + 4];
    pairs[k].record.extra = (ushort)in[7];
  }
  uint at = in[5] % 3, to = in[6] % 3;
  struct pair copy = pairs[at];
  pairs[at] = pairs[to];
  pairs[to] = copy;
  out[0] = bits_f(pairs[0].points[0].x); out[1] = bits_f(pairs[1].points[1].y);
  out[2] = pairs[0].record.value; out[3] = pairs[2].record.value ^ pairs[2].record.extra;
  out[4] = pairs[0].points[1].weight | (uint)pairs[1].points[0].tag << 16 | (uint)pairs[2].record.kind << 24;
  out[5] = (uint)sizeof(struct pair);
  *(__global struct record*)((__global uchar*)(out + 6)) = pairs[to].record;
}
