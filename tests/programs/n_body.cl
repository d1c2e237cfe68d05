// A step of n bodies with fused multiply-adds, a square root and a division for each pair.
#include "oracle.h"
PROGRAM {
  __local float bodies[64][4];
  BEGIN
  uint id = get_local_id(0);
  for (uint k = 0; k < 3; k++) bodies[id][k] = unit(in[k]);
  bodies[id][3] = __builtin_fabsf(unit(in[3])) + 0.01f;
  barrier(1);
  float acceleration[3] = {0, 0, 0};
  for (uint j = 0; j < 64; j++) {
    float d[3], square = 1e-4f;
    for (uint k = 0; k < 3; k++) {
      d[k] = bodies[j][k] - bodies[id][k];
      square = __builtin_fmaf(d[k], d[k], square);
    }
    float pull = bodies[j][3] / (square * __builtin_sqrtf(square));
    for (uint k = 0; k < 3; k++) acceleration[k] = __builtin_fmaf(d[k], pull, acceleration[k]);
  }
  for (uint k = 0; k < 3; k++) {
    float speed = __builtin_fmaf(acceleration[k], 0.01f, unit(in[4 + k]));
    out[k] = bits_f(speed); out[4 + k] = bits_f(__builtin_fmaf(speed, 0.01f, bodies[id][k]));
  }
}
