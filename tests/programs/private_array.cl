// Private arrays with indices known only when run, of words, bytes and doubles.
#include "oracle.h"
PROGRAM {
  BEGIN
  uint stack[24];
  uchar bytes[40];
  double doubles[6];
  for (uint k = 0; k < 24; k++) stack[k] = k * in[0];
  for (uint k = 0; k < 40; k++) bytes[k] = (uchar)(k ^ in[1]);
  for (uint k = 0; k < 6; k++) doubles[k] = (double)(int)in[k];
  for (uint k = 0; k < 30; k++) {
    uint at = (in[2] >> (k & 15)) % 24, to = (in[3] >> (k & 7)) % 24;
    uint t = stack[at]; stack[at] = stack[to] + k; stack[to] = t;
    bytes[(in[4] >> k) % 40] += bytes[(in[5] >> (k & 3)) % 40];
    doubles[(in[6] >> k) % 6] -= doubles[k % 6] * 0.5;
  }
  uint sum = 0, hash = 0;
  for (uint k = 0; k < 24; k++) sum += stack[k] * (k + 1);
  for (uint k = 0; k < 40; k++) hash = hash * 31 + bytes[k];
  double total = 0;
  for (uint k = 0; k < 6; k++) total += doubles[(k + in[7]) % 6];
  out[0] = sum; out[1] = hash; put64(out + 2, bits_d(total)); out[4] = stack[in[7] % 24]; out[5] = bytes[in[7] % 40];
}
