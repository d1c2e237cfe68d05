// Two GPUs that reach each other's memory.

// out[i] = 5 * in[i] + 1; either is in the memory of either GPU.
__kernel void step(__global uint* out, __global const uint* in, uint n) {
  uint i = get_global_id(0);
  if (i < n) out[i] = in[i] * 5 + 1;
}

// Adds one for each work-item to a word that both GPUs add to.
__kernel void tally(__global uint* sum) {
  __scoped_atomic_fetch_add(sum, 1u, __ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM);
}

// In each round it waits for the other GPU's store to its own word, and answers with a store to the other one's.
__kernel void answer(__global uint* own, __global uint* other, uint first, uint rounds) {
  for (uint round = 0; round < rounds; round++) {
    uint wanted = 2 * round + first;
    while (__scoped_atomic_load_n(own, __ATOMIC_ACQUIRE, __MEMORY_SCOPE_SYSTEM) != wanted) {}
    __scoped_atomic_store_n(own, wanted + 1, __ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM);
    __scoped_atomic_store_n(other, wanted + 1, __ATOMIC_RELEASE, __MEMORY_SCOPE_SYSTEM);
  }
}
