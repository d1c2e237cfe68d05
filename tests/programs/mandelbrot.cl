// Escape times in single, double and fixed-point arithmetic.
#include "oracle.h"
PROGRAM {
  BEGIN
  float cx = unit(in[0]) * 2.0f, cy = unit(in[1]) * 1.5f, x = 0, y = 0;
  uint n = 0;
  while (n < 200 && x * x + y * y < 4.0f) { float t = x * x - y * y + cx; y = 2.0f * x * y + cy; x = t; n++; }
  out[0] = n; out[1] = bits_f(x);
  double dx = cx, dy = cy, u = 0, v = 0;
  for (n = 0; n < 100; n++) { double t = u * u - v * v + dx; v = 2.0 * u * v + dy; u = t; if (u * u + v * v > 4.0) break; }
  out[2] = n; put64(out + 4, bits_d(u));
  int fx = (int)in[0] >> 4, fy = (int)in[1] >> 4, p = 0, q = 0;
  for (n = 0; n < 100; n++) {
    long pp = (long)p * p, qq = (long)q * q;
    if (pp + qq > 4l << 54) break;
    int t = (int)((pp - qq) >> 27) + fx; q = (int)((long)p * q >> 26) + fy; p = t;
  }
  out[3] = n; out[6] = (uint)p; out[7] = (uint)q;
}
