// xxHash64 of the input.
#include "oracle.h"
#define P1 0x9e3779b185ebca87ul
#define P2 0xc2b2ae3d27d4eb4ful
#define P3 0x165667b19e3779f9ul
#define P4 0x85ebca77c2b2ae63ul
static inline ulong mix(ulong acc, ulong x) { return __builtin_rotateleft64(acc + x * P2, 31) * P1; }
PROGRAM {
  BEGIN
  ulong v[4] = {P1 + P2, P2, 0, -P1};
  for (uint k = 0; k < 4; k++) v[k] = mix(v[k], (ulong)in[2 * k + 1] << 32 | in[2 * k]);
  ulong h = __builtin_rotateleft64(v[0], 1) + __builtin_rotateleft64(v[1], 7) + __builtin_rotateleft64(v[2], 12) +
            __builtin_rotateleft64(v[3], 18);
  for (uint k = 0; k < 4; k++) h = (h ^ mix(0, v[k])) * P1 + P4;
  h += WORDS * 4;
  h = (h ^ h >> 33) * P2; h = (h ^ h >> 29) * P3; h ^= h >> 32;
  put64(out, h);
}
