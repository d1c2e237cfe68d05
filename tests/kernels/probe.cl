// Kernels that do what a well-behaved program does not: touch any address, never end, run what is no instruction.

// out[i] = the word at address + 4*i, whatever is there.
__kernel void peek(__global uint* out, ulong address) {
  uint i = get_global_id(0);
  out[i] = ((__global uint*)address)[i];
}

// The word at address + 4*i becomes value.
__kernel void poke(ulong address, uint value) {
  ((__global uint*)address)[get_global_id(0)] = value;
}

// Runs until *stop is not zero.
__kernel void spin(__global uint* stop, __global uint* started) {
  __scoped_atomic_store_n(started, 1u, __ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM);
  while (__scoped_atomic_load_n(stop, __ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM) == 0) __builtin_amdgcn_s_sleep(1);
}

// SOPP has no operation 127.
__kernel void illegal(__global uint* out) {
  out[0] = 1;
  __asm__ volatile(".long 0xbfff0000");
  out[1] = 1;
}

// Work-item 0 of each workgroup takes tickets and leaves its workgroup's number on them: the order is a race.
__kernel void race(__global uint* next, __global uint* order) {
  if (get_local_id(0) != 0) return;
  for (uint round = 0; round < 8; round++) {
    uint ticket = __scoped_atomic_fetch_add(next, 1u, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    order[ticket] = get_group_id(0);
  }
}

// Every work-item updates the same words in every way, against others and against the processor.
__kernel void contend(__global uint* words, __global ulong* wide, uint rounds) {
  for (uint round = 0; round < rounds; round++) {
    __scoped_atomic_fetch_add(words, 1u, __ATOMIC_SEQ_CST, __MEMORY_SCOPE_SYSTEM);
    uint old = __scoped_atomic_load_n(words + 1, __ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM);
    while (!__scoped_atomic_compare_exchange_n(words + 1, &old, old * 5 % 7 + (old & ~7u) + 8, 0, __ATOMIC_ACQ_REL,
                                               __ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM)) {}
    __builtin_amdgcn_global_atomic_fadd_f32((__global float*)(words + 2), 1.0f);
    __scoped_atomic_fetch_xor(words + 3, 1u << (round & 31), __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    __scoped_atomic_fetch_max(words + 4, round + get_global_id(0), __ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM);
    __scoped_atomic_fetch_add(wide, 0x100000001ul, __ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM);
    ulong seen = __scoped_atomic_load_n(wide + 1, __ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM);
    ulong sum;
    do {
      sum = __builtin_bit_cast(ulong, __builtin_bit_cast(double, seen) + 0.5);
    } while (!__scoped_atomic_compare_exchange_n(wide + 1, &seen, sum, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                                 __MEMORY_SCOPE_SYSTEM));
  }
}

// A barrier across the grid, several times: every workgroup must be resident, and have its turn.
__kernel void rendezvous(__global uint* arrived, __global uint* out, uint groups, uint rounds) {
  for (uint round = 1; round <= rounds; round++) {
    barrier(0);
    if (get_local_id(0) == 0) {
      __scoped_atomic_fetch_add(arrived, 1u, __ATOMIC_ACQ_REL, __MEMORY_SCOPE_DEVICE);
      while (__scoped_atomic_load_n(arrived, __ATOMIC_ACQUIRE, __MEMORY_SCOPE_DEVICE) < groups * round) {}
    }
    barrier(0);
  }
  out[get_global_id(0)] = arrived[0];
}

// A spin lock around a counter that is not atomic.
__kernel void lock(__global uint* taken, __global uint* count, uint rounds) {
  if (get_local_id(0) != 0) return;
  for (uint round = 0; round < rounds; round++) {
    while (__scoped_atomic_exchange_n(taken, 1u, __ATOMIC_ACQUIRE, __MEMORY_SCOPE_DEVICE) != 0) {}
    __global volatile uint* counter = count;
    *counter = *counter + 1;
    __scoped_atomic_store_n(taken, 0u, __ATOMIC_RELEASE, __MEMORY_SCOPE_DEVICE);
  }
}
