// Barriers across the whole grid by global wave sync, as the device library's cooperative groups use them. Chips without it
// count in memory.

#ifdef __GFX12__
#define DEVICE __MEMORY_SCOPE_DEVICE

// Resource 0: waves that have come, and barriers that are over.
static __global uint arrived, over;
// Resource 1: how many more it admits.
static __global uint room;

// The next barrier waits for `others` and one more.
__kernel void gws_init(uint others) { arrived = 0; }

__kernel void gws_admit(uint count) { room = count; }

static void barrier_of_waves(uint others) {
  uint now = __scoped_atomic_load_n(&over, __ATOMIC_ACQUIRE, DEVICE);
  if (__scoped_atomic_fetch_add(&arrived, 1u, __ATOMIC_ACQ_REL, DEVICE) == others) {
    __scoped_atomic_store_n(&arrived, 0u, __ATOMIC_RELAXED, DEVICE);
    __scoped_atomic_fetch_add(&over, 1u, __ATOMIC_RELEASE, DEVICE);
  } else {
    while (__scoped_atomic_load_n(&over, __ATOMIC_ACQUIRE, DEVICE) == now) __builtin_amdgcn_s_sleep(1);
  }
}

static void enter(void) {
  for (;;) {
    uint free = __scoped_atomic_load_n(&room, __ATOMIC_RELAXED, DEVICE);
    if (free != 0 && __scoped_atomic_compare_exchange_n(&room, &free, free - 1, false, __ATOMIC_ACQUIRE,
                                                        __ATOMIC_RELAXED, DEVICE)) return;
    __builtin_amdgcn_s_sleep(1);
  }
}

static void leave(void) { __scoped_atomic_fetch_add(&room, 1u, __ATOMIC_RELEASE, DEVICE); }
#else
// Resource 0: the next barrier waits for `others` and one more.
__kernel void gws_init(uint others) { __builtin_amdgcn_ds_gws_init(others, 0); }

// Resource 1 admits `count` at a time.
__kernel void gws_admit(uint count) { __builtin_amdgcn_ds_gws_init(count, 1); }

static void barrier_of_waves(uint others) { __builtin_amdgcn_ds_gws_barrier(others, 0); }
static void enter(void) { __builtin_amdgcn_ds_gws_sema_p(1); }
static void leave(void) { __builtin_amdgcn_ds_gws_sema_v(1); }
#endif

static void grid_sync(uint others) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
  __builtin_amdgcn_s_barrier();
  if (get_local_id(0) == 0) barrier_of_waves(others);
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
  enter();
  uint now = __scoped_atomic_fetch_add(inside, 1u, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE) + 1;
  __scoped_atomic_fetch_max(most, now, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
  for (uint i = 0; i < 50; i++) __builtin_amdgcn_s_sleep(1);
  __scoped_atomic_fetch_add(total, 1u, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
  __scoped_atomic_fetch_sub(inside, 1u, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
  leave();
}
