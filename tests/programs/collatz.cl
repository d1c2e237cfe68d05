// Lengths of Collatz sequences.
#include "oracle.h"
PROGRAM {
  BEGIN
  for (uint k = 0; k < 4; k++) {
    ulong x = (in[k] & 0xfffff) + 1, top = x;
    uint steps = 0;
    while (x != 1) {
      x = x & 1 ? 3 * x + 1 : x >> 1;
      if (x > top) top = x;
      steps++;
    }
    out[k * 2] = steps; out[k * 2 + 1] = (uint)(top ^ top >> 32);
  }
}
