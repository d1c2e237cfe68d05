// The rounds of SHA-256 on one block, with constants made by a generator.
#include "oracle.h"
#define ROR(x, n) __builtin_rotateright32(x, n)
PROGRAM {
  BEGIN
  uint w[16], s[8], key = 0x428a2f98u;
  for (uint k = 0; k < 16; k++) w[k] = in[k & 7] + k * 0x9e3779b9u;
  for (uint k = 0; k < 8; k++) s[k] = 0x6a09e667u * (k + 1);
  for (uint k = 0; k < 64; k++) {
    if (k >= 16) {
      uint p = w[(k + 1) & 15], q = w[(k + 14) & 15];
      w[k & 15] += (ROR(p, 7) ^ ROR(p, 18) ^ p >> 3) + w[(k + 9) & 15] + (ROR(q, 17) ^ ROR(q, 19) ^ q >> 10);
    }
    key = key * 0x19660d + 0x3c6ef35f;
    uint t = s[7] + (ROR(s[4], 6) ^ ROR(s[4], 11) ^ ROR(s[4], 25)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) + key + w[k & 15];
    uint u = (ROR(s[0], 2) ^ ROR(s[0], 13) ^ ROR(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    for (uint j = 7; j; j--) s[j] = s[j - 1];
    s[4] += t; s[0] = t + u;
  }
  for (uint k = 0; k < 8; k++) out[k] = s[k];
}
