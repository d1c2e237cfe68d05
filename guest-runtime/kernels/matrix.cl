// C = A * B for square row-major matrices whose order is a multiple of 16: one wave32 per 16x16 tile of C.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef float v8f __attribute__((ext_vector_type(8)));
typedef half v8h __attribute__((ext_vector_type(8)));
typedef half v16h __attribute__((ext_vector_type(16)));

#ifdef __GFX12__
// The halves of the wave share the 16 values of k: each has four of the first eight, and four of the others.
#define COUNT 8
#define K(i) (8 * ((i) / 4) + 4 * (t >> 4) + (i) % 4)
#define ROW(i) (8 * (t >> 4) + (i))
#define WMMA __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12
typedef v8h operand;
#else
// Lanes 16..31 hold copies of lanes 0..15: WMMA reads the operands from both halves of the wave.
#define COUNT 16
#define K(i) (i)
#define ROW(i) (2 * (i) + (t >> 4))
#define WMMA __builtin_amdgcn_wmma_f32_16x16x16_f16_w32
typedef v16h operand;
#endif

__attribute__((reqd_work_group_size(32,1,1)))
__kernel void matmul(__global const half* a, __global const half* b, __global float* c, uint n) {
  uint t = get_local_id(0), lane = t & 15, row = get_group_id(1) * 16, col = get_group_id(0) * 16;
  v8f sum = 0;
  for (uint k = 0; k < n; k += 16) {
    operand x, y;
    #pragma unroll
    for (uint i = 0; i < COUNT; i++) {
      x[i] = a[(row + lane) * n + k + K(i)];
      y[i] = b[(k + K(i)) * n + col + lane];
    }
    sum = WMMA(x, y, sum);
  }
  #pragma unroll
  for (uint i = 0; i < 8; i++) c[(row + ROW(i)) * n + col + lane] = sum[i];
}
