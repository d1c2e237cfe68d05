// Global atomics whose results do not depend on their order.
#include "oracle.h"
#define ATOMIC(op, p, v) __scoped_atomic_fetch_##op(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE)
PROGRAM {
  // Everything lands in the first words of the output.
  in += get_global_id(0) * WORDS;
  ATOMIC(add, out + 0, in[0]);
  ATOMIC(sub, out + 1, in[1]);
  ATOMIC(xor, out + 2, in[2]);
  ATOMIC(or, out + 3, in[3] & in[4] & in[5]);
  ATOMIC(max, out + 4, in[4]);
  ATOMIC(max, (__global int*)out + 5, (int)in[5]);
  ATOMIC(min, (__global int*)out + 6, (int)in[6]);
  ATOMIC(add, (__global ulong*)(out + 8), (ulong)in[0] << 32 | in[1]);
  ATOMIC(max, (__global ulong*)(out + 10), (ulong)in[2] << 32 | in[3]);
  ATOMIC(xor, (__global ulong*)(out + 12), (ulong)in[4] << 32 | in[5]);
  ATOMIC(add, out + 16 + (in[7] & 63), in[6] & 255);
  // A compare-and-swap loop: products of odd numbers commute.
  uint old = __scoped_atomic_load_n(out + 100, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE), new;
  do new = (old ? old : 1) * (in[7] | 1);
  while (!__scoped_atomic_compare_exchange_n(out + 100, &old, new, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                             __MEMORY_SCOPE_DEVICE));
}
