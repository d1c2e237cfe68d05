// A histogram of bytes in LDS, one for each work-group.
#include "oracle.h"
PROGRAM {
  __local uint bins[256];
  BEGIN
  uint id = get_local_id(0);
  for (uint k = id; k < 256; k += 64) bins[k] = 0;
  barrier(1);
  for (uint k = 0; k < WORDS; k++)
    for (uint s = 0; s < 32; s += 8)
      __scoped_atomic_fetch_add(bins + (in[k] >> s & 255), 1u, __ATOMIC_RELAXED, __MEMORY_SCOPE_WRKGRP);
  barrier(1);
  for (uint k = 0; k < 4; k++) out[k] = bins[id * 4 + k];
}
