// Kernels with a race, and their repaired twins: what `belfry explore -- racy:NAME` is shown on.

// Each wave stores a square per work-item in LDS and reads those of the wave before it. Without the barrier it may read what that
// wave has not stored yet.
static inline void shift(__global uint* out, __local uint* squares, int waits) {
  uint i = get_local_id(0), wave = i / 64;
  squares[i] = (i + 1) * (i + 1);
  if (waits) barrier(CLK_LOCAL_MEM_FENCE);
  out[i] = wave == 0 ? squares[i] : squares[i - 64];
}

__kernel void missing_barrier(__global uint* out) {
  __local uint squares[256];
  shift(out, squares, 0);
}

__kernel void with_barrier(__global uint* out) {
  __local uint squares[256];
  shift(out, squares, 1);
}

// Workgroup 0 stores data and then a flag, workgroup 1 waits for the flag and reads the data. Without the release, the data may
// arrive behind the flag.
__kernel void missing_fence(__global uint* data, __global uint* flag, __global uint* out) {
  uint i = get_local_id(0);
  if (get_group_id(0) == 0) {
    __scoped_atomic_store_n(&data[i], i * 3 + 1, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    __scoped_atomic_store_n(flag, 1u, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
  } else {
    while (__scoped_atomic_load_n(flag, __ATOMIC_ACQUIRE, __MEMORY_SCOPE_DEVICE) == 0) __builtin_amdgcn_s_sleep(1);
    out[i] = __scoped_atomic_load_n(&data[i], __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
  }
}

__kernel void with_fence(__global uint* data, __global uint* flag, __global uint* out) {
  uint i = get_local_id(0);
  if (get_group_id(0) == 0) {
    __scoped_atomic_store_n(&data[i], i * 3 + 1, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    __scoped_atomic_store_n(flag, 1u, __ATOMIC_RELEASE, __MEMORY_SCOPE_DEVICE);
  } else {
    while (__scoped_atomic_load_n(flag, __ATOMIC_ACQUIRE, __MEMORY_SCOPE_DEVICE) == 0) __builtin_amdgcn_s_sleep(1);
    out[i] = __scoped_atomic_load_n(&data[i], __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
  }
}

// out[i] = in[i] * 2
__kernel void twice(__global const uint* in, __global uint* out) {
  uint i = get_global_id(0);
  out[i] = in[i] * 2;
}
