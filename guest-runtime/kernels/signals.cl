// Work that other queues wait for.

static inline uint churn(uint x, uint rounds) {
  for (uint k = 0; k < rounds; k++) { x ^= x << 13; x ^= x >> 17; x ^= x << 5; }
  return x;
}

// out[i] = the xorshift of seed+i after `rounds` rounds; more rounds take longer.
__kernel void produce(__global uint* out, uint seed, uint rounds, uint n) {
  uint i = get_global_id(0);
  if (i < n) out[i] = churn(seed + i, rounds);
}

// out[i] = a[i] + 3*b[i]
__kernel void combine(__global uint* out, __global const uint* a, __global const uint* b, uint n) {
  uint i = get_global_id(0);
  if (i < n) out[i] = a[i] + 3 * b[i];
}

// Adds one to *counter for each work-item, and the work-item's number to *sum.
__kernel void count(__global uint* counter, __global ulong* sum) {
  __scoped_atomic_fetch_add(counter, 1u, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
  __scoped_atomic_fetch_add(sum, (ulong)get_global_id(0), __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}
