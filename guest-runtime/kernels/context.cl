// Workgroups of 128 keep numbers in LDS and mix values through it, before and after the host says that they may end.

#define GROUP 128

static uint mix(local uint *tile, uint value, uint first, uint rounds) {
  uint l = get_local_id(0);
  for (uint round = first; round < first + rounds; ++round) {
    tile[l] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    value = (value ^ tile[(l + round * 7 + 1) & (GROUP - 1)]) * 1664525u + round;
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  return value;
}

// words[0]: the host's flag; words[1]: workgroups that wait for it.
kernel void tides(global uint *words, global uint *out, uint rounds, uint sentinel) {
  local uint tile[GROUP];
  local uint kept[GROUP];
  local uint go;
  uint l = get_local_id(0), i = get_group_id(0) * GROUP + l;
  kept[l] = sentinel + i;
  uint value = mix(tile, i * 2654435761u + 1, 0, rounds);
  if (l == 0)
    __opencl_atomic_fetch_add((global atomic_uint *)words + 1, 1, memory_order_relaxed, memory_scope_all_svm_devices);
  do {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l == 0)
      go = __opencl_atomic_load((global atomic_uint *)words, memory_order_relaxed, memory_scope_all_svm_devices);
    barrier(CLK_LOCAL_MEM_FENCE);
  } while (go == 0);
  out[i] = mix(tile, value, rounds, rounds) ^ kept[GROUP - 1 - l];
}
