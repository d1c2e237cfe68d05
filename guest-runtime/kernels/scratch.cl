// Rotates and reverses each run of 32 words through a private array, indexed so that it cannot live in registers.
__kernel void reverse(__global uint* words, uint runs) {
  uint i = get_global_id(0);
  if (i >= runs) return;
  uint stack[32];
  for (uint k = 0; k < 32; k++) stack[(k + i) & 31] = words[i * 32 + k];
  for (uint k = 0; k < 32; k++) words[i * 32 + k] = stack[31 - k] + i;
}
