// Work that nothing but the end of its queue ends.

// Adds to *beats for as long as it is let.
__kernel void endless(__global uint* beats) {
  for (;;) {
    __scoped_atomic_fetch_add(beats, 1u, __ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM);
    __builtin_amdgcn_s_sleep(1);
  }
}
