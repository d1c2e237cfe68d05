// CRC-32 bit by bit, by nibbles from a constant table, and Adler-32.
#include "oracle.h"
__constant uint TABLE[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                             0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
PROGRAM {
  BEGIN
  uint slow = ~0u, fast = ~0u, a = 1, b = 0;
  for (uint k = 0; k < WORDS * 4; k++) {
    uint byte = ((__global const uchar*)in)[k];
    slow ^= byte;
    for (uint j = 0; j < 8; j++) slow = slow & 1 ? slow >> 1 ^ 0xedb88320u : slow >> 1;
    fast = TABLE[(fast ^ byte) & 15] ^ fast >> 4;
    fast = TABLE[(fast ^ byte >> 4) & 15] ^ fast >> 4;
    a = (a + byte) % 65521; b = (b + a) % 65521;
  }
  out[0] = ~slow; out[1] = ~fast; out[2] = b << 16 | a;
}
