// What depends on how a kernel is launched and loaded: three dimensions, LDS sized by the host, relocated tables.

#define SIZE(d) ((d)==0?__builtin_amdgcn_workgroup_size_x():(d)==1?__builtin_amdgcn_workgroup_size_y():__builtin_amdgcn_workgroup_size_z())
#define ID(d) (get_group_id(d) * SIZE(d) + get_local_id(d))

// Writes each work-item's place in a grid of w by h by any depth.
__kernel void place(__global uint* out, uint w, uint h) {
  uint x = ID(0), y = ID(1), z = ID(2);
  out[(z * h + y) * w + x] = x | y << 8 | z << 16;
}

// Reverses the words of each workgroup, twice over, through two pieces of LDS of a workgroup's size each.
__kernel void turn(__global uint* out, __global const uint* in, __local ushort* low, __local ushort* high) {
  uint t = get_local_id(0), size = SIZE(0), base = get_group_id(0) * size, word = in[base + t];
  low[t] = word; high[t] = word >> 16;
  barrier(CLK_LOCAL_MEM_FENCE);
  uint other = size - 1 - t;
  out[base + t] = low[other] | (uint)high[other] << 16;
}

__constant uint squares[4] = {0, 1, 4, 9};
__constant uint cubes[4] = {0, 1, 8, 27};
__constant uint* __constant tables[2] = {squares, cubes};

// Looks up through pointers that the loader relocated.
__kernel void lookup(__global uint* out, __global const uint* which, uint n) {
  uint i = ID(0);
  if (i < n) out[i] = tables[which[i] & 1][i & 3];
}
