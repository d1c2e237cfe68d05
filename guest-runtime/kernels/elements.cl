// Something done with each element of arrays, as most kernels of frameworks do: addresses go up by the same step from lane to lane.
typedef float f2 __attribute__((ext_vector_type(2)));
typedef float f4 __attribute__((ext_vector_type(4)));
#define ARRAYS(C, A, B) __global C* restrict c, const __global A* restrict a, const __global B* restrict b, int n

__kernel void add(ARRAYS(float, float, float)) { int i = get_global_id(0); c[i] = a[i] + b[i]; }
// In workgroups of a fixed size.
__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void add_fixed(ARRAYS(float, float, float)) {
  int i = get_group_id(0) * 128 + get_local_id(0); c[i] = a[i] + b[i];
}
__kernel void bounded(ARRAYS(float, float, float)) { int i = get_global_id(0); if (i < n) c[i] = a[i] * 2.0f + b[i]; }
__kernel void bounded_unsigned(ARRAYS(float, float, float)) { uint i = get_global_id(0); if (i < (uint)n) c[i] = a[i] * 2.0f + b[i]; }
__kernel void at_least(ARRAYS(int, int, int)) { int i = get_global_id(0); if (i >= n) c[i] = a[i] > b[i] ? a[i] : b[i]; }
__kernel void number(ARRAYS(int, int, int)) { int i = get_global_id(0); c[i] = (i * 3 + 5) ^ a[i]; }
__kernel void wide(ARRAYS(f4, f2, f4)) { int i = get_global_id(0); f2 x = a[i]; c[i] = b[i] + x.xyxy; }
// One element for all lanes.
__kernel void same(ARRAYS(int, int, int)) { int i = get_global_id(0); c[i] = a[get_group_id(0) & 31] + b[n & 31]; }
__kernel void narrow(ARRAYS(short, uchar, short)) { int i = get_global_id(0); c[i] = a[i] * b[i]; }
__kernel void two(ARRAYS(int, int, int)) { int i = get_global_id(0); int x = a[i], y = b[i]; c[i] = x + y; c[i + 8192] = x - y; }
__kernel void shifted(ARRAYS(int, int, int)) { int i = get_global_id(0); c[i] = a[i + n] + b[i + 1]; }
__kernel void every_second(ARRAYS(int, int, int)) { int i = get_global_id(0); c[i] = a[i * 2] + b[i]; }
// What may have been stored is loaded.
__kernel void in_place(__global int* c, __global int* a, __global int* b, int n) { int i = get_global_id(0); c[i] = a[i] + 1; b[i] = a[i] + n; }
__kernel void masked(ARRAYS(int, int, int)) { int i = get_global_id(0) & 0x3fff; c[i] = a[i] - b[i]; }
__kernel void far(ARRAYS(int, int, int)) { long i = get_global_id(0); c[i] = a[i] + b[i]; }
