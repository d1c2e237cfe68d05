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
