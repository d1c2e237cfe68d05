// Divergent control flow: nested conditions, loops that work-items leave at different times, switch.
#include "oracle.h"
static inline uint step(uint op, uint x, uint y) {
  switch (op) {
    case 0: return x + y;
    case 1: return x ^ (y << 3);
    case 2: return x * (y | 1);
    case 3: return x / ((y & 255) + 1);
    case 4: return x % ((y & 1023) + 1);
    case 7: return __builtin_rotateleft32(x, y);
    case 9: if (x > y) return x - y; return y - x;
    case 12: return x & ~y;
    default: return x - op;
  }
}
PROGRAM {
  BEGIN
  uint x = in[0], y = in[1], n = 0, taken = 0;
  for (uint k = 0; k < 200; k++) {
    x = step(x >> 3 & 15, x, y + k);
    if ((x & 7) == 5) { y += x; taken |= 1; continue; }
    if ((x & 63) == 9) { taken |= 2; break; }
    for (uint j = y & 7; j; j--) {
      if ((x ^ j) % 11 == 3) { taken |= 4; goto next; }
      x += j * y;
    }
    y ^= x >> 5;
  next:
    n++;
  }
  uint m = 0;
  do { m += y & 3; y >>= 1; if (m > 20) break; } while (y);
  out[0] = x; out[1] = y; out[2] = n; out[3] = m; out[4] = taken;
  out[5] = x > y ? (n > 50 ? m : x & m) : (n > 10 ? y | 1 : n);
  if (item & 1) { if (item & 2) out[6] = x; else out[6] = y; } else if (item % 3 == 0) out[6] = n;
  out[7] = in[x & 7];
}
