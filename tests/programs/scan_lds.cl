// Inclusive scans of a work-group, sum and maximum, with a barrier in each step.
#include "oracle.h"
PROGRAM {
  __local uint sums[2][64];
  __local ulong tops[2][64];
  BEGIN
  uint id = get_local_id(0), from = 0;
  sums[0][id] = in[0];
  tops[0][id] = (ulong)in[1] << 32 | in[2];
  for (uint step = 1; step < 64; step <<= 1) {
    barrier(1);
    uint sum = sums[from][id];
    ulong top = tops[from][id];
    if (id >= step) {
      sum += sums[from][id - step];
      ulong other = tops[from][id - step];
      if (other > top) top = other;
    }
    from ^= 1;
    sums[from][id] = sum;
    tops[from][id] = top;
  }
  barrier(1);
  out[0] = sums[from][id]; out[1] = sums[from][63 - id];
  put64(out + 2, tops[from][id]);
}
