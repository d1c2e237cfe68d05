// C = A * B for square row-major matrices whose order is a multiple of 16: one wave per 16x16 tile of C.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef float v8f __attribute__((ext_vector_type(8)));
typedef float v4f __attribute__((ext_vector_type(4)));
typedef half v4h __attribute__((ext_vector_type(4)));
typedef half v8h __attribute__((ext_vector_type(8)));
typedef half v16h __attribute__((ext_vector_type(16)));

#ifdef __GFX9__
// The quarters of the wave share the 16 values of k, and the rows of C.
#define LANES 64
#define COUNT 4
#define K(i) (4 * (t >> 4) + (i))
#define ROWS 4
#define ROW(i) (4 * (t >> 4) + (i))
#define MULTIPLY(x, y, sum) __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, sum, 0, 0, 0)
typedef v4h operand;
typedef v4f result;
#elif defined(__GFX12__)
// The halves of the wave share the 16 values of k: each has four of the first eight, and four of the others.
#define COUNT 8
#define K(i) (8 * ((i) / 4) + 4 * (t >> 4) + (i) % 4)
#define LANES 32
#define ROWS 8
#define ROW(i) (8 * (t >> 4) + (i))
#define MULTIPLY __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12
typedef v8h operand;
typedef v8f result;
#else
// Lanes 16..31 hold copies of lanes 0..15: WMMA reads the operands from both halves of the wave.
#define COUNT 16
#define K(i) (i)
#define LANES 32
#define ROWS 8
#define ROW(i) (2 * (i) + (t >> 4))
#define MULTIPLY __builtin_amdgcn_wmma_f32_16x16x16_f16_w32
typedef v16h operand;
typedef v8f result;
#endif

__attribute__((reqd_work_group_size(LANES,1,1)))
__kernel void matmul(__global const half* a, __global const half* b, __global float* c, uint n) {
  uint t = get_local_id(0), lane = t & 15, row = get_group_id(1) * 16, col = get_group_id(0) * 16;
  result sum = 0;
  for (uint k = 0; k < n; k += 16) {
    operand x, y;
    #pragma unroll
    for (uint i = 0; i < COUNT; i++) {
      x[i] = a[(row + lane) * n + k + K(i)];
      y[i] = b[(k + K(i)) * n + col + lane];
    }
    sum = MULTIPLY(x, y, sum);
  }
  #pragma unroll
  for (uint i = 0; i < ROWS; i++) c[(row + ROW(i)) * n + col + lane] = sum[i];
}
