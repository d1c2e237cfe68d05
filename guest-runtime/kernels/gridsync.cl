// Barriers across the whole grid by global wave sync, as the device library's cooperative groups use them.

// Resource 0: the next barrier waits for `others` and one more.
__kernel void gws_init(uint others) { __builtin_amdgcn_ds_gws_init(others, 0); }

// Resource 1 admits `count` at a time.
__kernel void gws_admit(uint count) { __builtin_amdgcn_ds_gws_init(count, 1); }

static void grid_sync(uint others) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
  __builtin_amdgcn_s_barrier();
  if (get_local_id(0) == 0) __builtin_amdgcn_ds_gws_barrier(others, 0);
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
}

// Every round each cell becomes the sum of its neighbours in the ring, so every workgroup needs what others wrote.
__kernel void ring_sums(__global uint* from, __global uint* to, uint count, uint groups, uint rounds) {
  uint i = get_global_id(0);
  for (uint round = 0; round < rounds; round++) {
    to[i] = from[(i + count - 1) % count] + from[(i + 1) % count];
    grid_sync(groups - 1);
    __global uint* swap = from;
    from = to;
    to = swap;
  }
}

// Work-item 0 of each workgroup is counted while it is inside; `most` becomes the largest number that was there at once.
__kernel void admitted(__global uint* inside, __global uint* most, __global uint* total) {
  if (get_local_id(0) != 0) return;
  __builtin_amdgcn_ds_gws_sema_p(1);
  uint now = __scoped_atomic_fetch_add(inside, 1u, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE) + 1;
  __scoped_atomic_fetch_max(most, now, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
  for (uint i = 0; i < 50; i++) __builtin_amdgcn_s_sleep(1);
  __scoped_atomic_fetch_add(total, 1u, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
  __scoped_atomic_fetch_sub(inside, 1u, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
  __builtin_amdgcn_ds_gws_sema_v(1);
}
