// Matrices of 16 by 16 by 16 halves, 32 bytes and 4 singles, by matrix instructions of CDNA3 where there are any, element by
// element elsewhere. Lane l has four elements of A in row l % 16, and of B in column l % 16.
#include "oracle.h"

#if defined(__GFX9__)
typedef half h4 __attribute__((ext_vector_type(4)));
typedef float f4 __attribute__((ext_vector_type(4)));
typedef int i4 __attribute__((ext_vector_type(4)));
#endif

// Small integers of the elements' formats.
static inline int small(uint word, uint k) { return (int)(word >> (4 * k) & 15) - 8; }
static inline int byte(uint word, uint k) { return (int)(word << (24 - 8 * k)) >> 24; }

PROGRAM {
  __local uint words[64][4];
  BEGIN
  uint l = get_local_id(0);
  for (uint n = 0; n < 4; n++) words[l][n] = in[n];
  barrier(1);
  uint j = l % 16;
#if defined(__GFX9__)
  h4 a, b;
  f4 c;
  i4 d;
  for (uint k = 0; k < 4; k++) {
    a[k] = (half)small(in[0], k);
    b[k] = (half)small(in[2], k);
    c[k] = (float)(int)(l / 16 * 4 + k);
    d[k] = (int)(l / 16 * 4 + k);
  }
  c = __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0);
  c = __builtin_amdgcn_mfma_f32_16x16x4f32((float)small(in[0], 7), (float)small(in[2], 7), c, 0, 0, 0);
  d = __builtin_amdgcn_mfma_i32_16x16x32_i8((ulong)in[1] << 32 | in[0], (ulong)in[3] << 32 | in[2], d, 0, 0, 0);
  for (uint r = 0; r < 4; r++) {
    out[r] = bits_f(c[r]);
    out[4 + r] = (uint)d[r];
  }
#else
  for (uint r = 0; r < 4; r++) {
    uint i = l / 16 * 4 + r;
    int sum = (int)i, wide = (int)i;
    for (uint k = 0; k < 16; k++) sum += small(words[i + k / 4 * 16][0], k % 4) * small(words[j + k / 4 * 16][2], k % 4);
    for (uint k = 0; k < 4; k++) sum += small(words[i + k * 16][0], 7) * small(words[j + k * 16][2], 7);
    for (uint k = 0; k < 32; k++)
      wide += byte(words[i + k / 8 * 16][k / 4 % 2], k % 4) * byte(words[j + k / 8 * 16][2 + k / 4 % 2], k % 4);
    out[r] = bits_f((float)sum);
    out[4 + r] = (uint)wide;
  }
#endif
}
