// Bitonic sort of a power-of-two number of unsigned keys, ascending.
// Pass sizes k = 2, 4, .. n; strides j = k/2, .. 1. Strides below 512 stay inside one workgroup's LDS.
#define TILE 512

static inline void order(__local uint* a, uint low, uint high, int ascending) {
  uint x = a[low], y = a[high];
  if ((x > y) == ascending) { a[low] = y; a[high] = x; }
}

// grid = n/2 work-items, block = 256: runs passes first_k..=last_k for the strides that fit in a tile.
__attribute__((reqd_work_group_size(256,1,1)))
__kernel void bitonic_local(__global uint* keys, uint first_k, uint last_k) {
  __local uint tile[TILE];
  uint t = get_local_id(0), base = get_group_id(0) * TILE;
  tile[t] = keys[base + t];
  tile[t + 256] = keys[base + t + 256];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint k = first_k; k <= last_k; k <<= 1) {
    uint j = k >> 1; if (j > 256) j = 256;
    for (; j > 0; j >>= 1) {
      uint low = 2 * t - (t & (j - 1));
      order(tile, low, low + j, ((base + low) & k) == 0);
      barrier(CLK_LOCAL_MEM_FENCE);
    }
  }
  keys[base + t] = tile[t];
  keys[base + t + 256] = tile[t + 256];
}

// grid = n/2 work-items, block = 256: one stride of one pass, for strides of a tile and more.
__attribute__((reqd_work_group_size(256,1,1)))
__kernel void bitonic_step(__global uint* keys, uint k, uint j) {
  uint t = get_group_id(0) * 256 + get_local_id(0);
  uint low = 2 * t - (t & (j - 1)), high = low + j;
  uint x = keys[low], y = keys[high];
  if ((x > y) == ((low & k) == 0)) { keys[low] = y; keys[high] = x; }
}
