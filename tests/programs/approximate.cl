// What the GPU approximates, in single precision: compared in ulps, one float a word.
#include "oracle.h"
PROGRAM {
  BEGIN
  float x = unit(in[0]) * 20.0f, y = __builtin_fabsf(unit(in[1])) * 100.0f + 0x1p-20f;
  out[0] = bits_f(__builtin_exp2f(x));
  out[1] = bits_f(__builtin_log2f(y + 2.0f));
  out[2] = bits_f(__builtin_expf(x));
  out[3] = bits_f(__builtin_logf(y + 2.0f));
  out[4] = bits_f(__builtin_log10f(y + 2.0f));
}
