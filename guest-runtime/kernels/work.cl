// Work as people give it to GPUs, for the speed suite. The same source is OpenCL for a processor.
#ifdef __AMDGCN__
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define EXP2 __builtin_amdgcn_exp2f
#define RCP __builtin_amdgcn_rcpf
#define RSQRT __builtin_amdgcn_rsqf
#else
#define EXP2 exp2
#define RCP(x) (1.0f / (x))
#define RSQRT rsqrt
#endif
#define KERNEL(X, Y) __kernel __attribute__((reqd_work_group_size(X, Y, 1)))
#define SYNC barrier(CLK_LOCAL_MEM_FENCE)
#define MORE(a, b) ((a) > (b) ? (a) : (b))
#define PLUS(a, b) ((a) + (b))
// The values of 256 work-items, combined; every one of them gets the result.
#define COMBINE(value, all, how) \
  do { \
    all[t] = value; \
    SYNC; \
    for (uint half_of = 128; half_of > 0; half_of >>= 1) { \
      if (t < half_of) all[t] = how(all[t], all[t + half_of]); \
      SYNC; \
    } \
    value = all[0]; \
    SYNC; \
  } while (0)

// Rows of 1024 numbers, one workgroup each.
KERNEL(256, 1) void softmax(__global float* restrict out, __global const float* restrict in) {
  __local float all[256];
  uint t = get_local_id(0), row = get_group_id(0) * 1024;
  float x[4];
  #pragma unroll
  for (uint i = 0; i < 4; i++) x[i] = in[row + i * 256 + t];
  float most = MORE(MORE(x[0], x[1]), MORE(x[2], x[3]));
  COMBINE(most, all, MORE);
  #pragma unroll
  for (uint i = 0; i < 4; i++) x[i] = EXP2((x[i] - most) * 1.44269504f);
  float sum = (x[0] + x[1]) + (x[2] + x[3]);
  COMBINE(sum, all, PLUS);
  float share = RCP(sum);
  #pragma unroll
  for (uint i = 0; i < 4; i++) out[row + i * 256 + t] = x[i] * share;
}

// Rows of 1024 numbers, one workgroup each: mean 0 and variance 1, then times a gain for each column.
KERNEL(256, 1) void layer_norm(__global float* restrict out, __global const float* restrict in, __global const float* restrict gain) {
  __local float all[256];
  uint t = get_local_id(0), row = get_group_id(0) * 1024;
  float x[4];
  #pragma unroll
  for (uint i = 0; i < 4; i++) x[i] = in[row + i * 256 + t];
  float mean = (x[0] + x[1]) + (x[2] + x[3]);
  COMBINE(mean, all, PLUS);
  mean *= 1.0f / 1024;
  #pragma unroll
  for (uint i = 0; i < 4; i++) x[i] -= mean;
  float variance = (x[0] * x[0] + x[1] * x[1]) + (x[2] * x[2] + x[3] * x[3]);
  COMBINE(variance, all, PLUS);
  float scale = RSQRT(variance * (1.0f / 1024) + 1e-5f);
  #pragma unroll
  for (uint i = 0; i < 4; i++) out[row + i * 256 + t] = x[i] * scale * gain[i * 256 + t];
}

// C = A * B of half precision, B by its columns: two 16x16 tiles of C per workgroup, side by side.
KERNEL(64, 1) void gemm_f16(__global float* restrict c, __global const half* restrict a, __global const half* restrict b, uint n) {
  uint item = get_local_id(0), row = get_group_id(1) * 16, pair = get_group_id(0) * 32;
#ifdef __AMDGCN__
  typedef float v8f __attribute__((ext_vector_type(8)));
  typedef float v4f __attribute__((ext_vector_type(4)));
  typedef half v4h __attribute__((ext_vector_type(4)));
  typedef half v8h __attribute__((ext_vector_type(8)));
  typedef half v16h __attribute__((ext_vector_type(16)));
  // How the lanes share the 16 values of k and the rows of C: see matrix.cl.
#ifdef __GFX9__
  uint t = item;
  for (uint col = pair; col < pair + 32; col += 16) {
#define COUNT 4
#define K(i) (4 * (t >> 4) + (i))
#define ROWS 4
#define ROW(i) (4 * (t >> 4) + (i))
#define MULTIPLY(x, y, sum) __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, sum, 0, 0, 0)
    v4f sum = 0; v4h x, y;
#else
  uint t = item & 31;
  for (uint col = pair + (item >> 5) * 16, once = 1; once; once = 0) {
#define ROWS 8
#ifdef __GFX12__
#define COUNT 8
#define K(i) (8 * ((i) / 4) + 4 * (t >> 4) + (i) % 4)
#define ROW(i) (8 * (t >> 4) + (i))
#define MULTIPLY __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12
    v8f sum = 0; v8h x, y;
#else
#define COUNT 16
#define K(i) (i)
#define ROW(i) (2 * (i) + (t >> 4))
#define MULTIPLY __builtin_amdgcn_wmma_f32_16x16x16_f16_w32
    v8f sum = 0; v16h x, y;
#endif
#endif
    uint lane = t & 15;
    for (uint k = 0; k < n; k += 16) {
      #pragma unroll
      for (uint i = 0; i < COUNT; i++) {
        x[i] = a[(row + lane) * n + k + K(i)];
        y[i] = b[(col + lane) * n + k + K(i)];
      }
      sum = MULTIPLY(x, y, sum);
    }
    #pragma unroll
    for (uint i = 0; i < ROWS; i++) c[(row + ROW(i)) * n + col + lane] = sum[i];
  }
#else
  uint col = pair + (item & 31), first = row + (item >> 5) * 8;
  float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  for (uint k = 0; k < n; k++) {
    float y = vload_half(col * n + k, b);
    for (uint i = 0; i < 8; i++) sum[i] += vload_half((first + i) * n + k, a) * y;
  }
  for (uint i = 0; i < 8; i++) c[(first + i) * n + col] = sum[i];
#endif
}

// One step of heat flow on a square whose edges are insulated.
KERNEL(32, 8) void stencil(__global float* restrict out, __global const float* restrict in, uint n) {
  uint x = get_group_id(0) * 32 + get_local_id(0), y = get_group_id(1) * 8 + get_local_id(1);
  uint left = x > 0 ? x - 1 : x, right = x + 1 < n ? x + 1 : x;
  uint up = y > 0 ? y - 1 : y, down = y + 1 < n ? y + 1 : y;
  float around = (in[y * n + left] + in[y * n + right]) + (in[up * n + x] + in[down * n + x]);
  out[y * n + x] = 0.5f * in[y * n + x] + 0.125f * around;
}

// One pass of a radix sort by four bits: 1024 keys per workgroup, in order; `starts` says where a workgroup's keys of a digit go.
KERNEL(256, 1) void radix_pass(__global uint* restrict out, __global const uint* restrict in, __global const uint* restrict starts, uint shift, uint groups) {
  __local uint counts[16 * 256];
  __local uint sums[256];
  uint t = get_local_id(0), group = get_group_id(0);
  uint key[4];
  #pragma unroll
  for (uint d = 0; d < 16; d++) counts[d * 256 + t] = 0;
  #pragma unroll
  for (uint i = 0; i < 4; i++) {
    key[i] = in[group * 1024 + t * 4 + i];
    counts[(key[i] >> shift & 15) * 256 + t]++;
  }
  SYNC;
  // How many keys are before each count: within 16 of them, then before these.
  uint sum = 0;
  for (uint i = 0; i < 16; i++) {
    uint count = counts[t * 16 + i];
    counts[t * 16 + i] = sum;
    sum += count;
  }
  sums[t] = sum;
  SYNC;
  for (uint step = 1; step < 256; step <<= 1) {
    uint before = t >= step ? sums[t - step] : 0;
    SYNC;
    sums[t] += before;
    SYNC;
  }
  uint before = t > 0 ? sums[t - 1] : 0;
  for (uint i = 0; i < 16; i++) counts[t * 16 + i] += before;
  SYNC;
  uint first[4], rank[4];
  #pragma unroll
  for (uint i = 0; i < 4; i++) {
    uint digit = key[i] >> shift & 15;
    first[i] = starts[digit * groups + group] - counts[digit * 256];
  }
  SYNC;
  #pragma unroll
  for (uint i = 0; i < 4; i++) rank[i] = counts[(key[i] >> shift & 15) * 256 + t]++;
  #pragma unroll
  for (uint i = 0; i < 4; i++) out[first[i] + rank[i]] = key[i];
}

#define RIGHT(x, n) ((x) >> (n) | (x) << (32 - (n)))

// SHA-256 of messages of 32 bytes, one per work-item.
KERNEL(64, 1) void sha256(__global uint* restrict out, __global const uint* restrict in) {
  const uint k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
  const uint start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint message = get_group_id(0) * 64 + get_local_id(0);
  uint w[16], s[8];
  #pragma unroll
  for (uint i = 0; i < 8; i++) { w[i] = in[message * 8 + i]; s[i] = start[i]; }
  w[8] = 0x80000000;
  #pragma unroll
  for (uint i = 9; i < 15; i++) w[i] = 0;
  w[15] = 256;
  #pragma unroll
  for (uint i = 0; i < 64; i++) {
    if (i >= 16) {
      uint early = w[(i + 1) & 15], late = w[(i + 14) & 15];
      w[i & 15] += (RIGHT(early, 7) ^ RIGHT(early, 18) ^ early >> 3) + w[(i + 9) & 15]
        + (RIGHT(late, 17) ^ RIGHT(late, 19) ^ late >> 10);
    }
    uint x = s[7] + (RIGHT(s[4], 6) ^ RIGHT(s[4], 11) ^ RIGHT(s[4], 25)) + (s[6] ^ (s[4] & (s[5] ^ s[6]))) + k[i] + w[i & 15];
    uint y = (RIGHT(s[0], 2) ^ RIGHT(s[0], 13) ^ RIGHT(s[0], 22)) + ((s[0] & s[1]) | (s[2] & (s[0] | s[1])));
    s[7] = s[6]; s[6] = s[5]; s[5] = s[4]; s[4] = s[3] + x;
    s[3] = s[2]; s[2] = s[1]; s[1] = s[0]; s[0] = x + y;
  }
  #pragma unroll
  for (uint i = 0; i < 8; i++) out[message * 8 + i] = s[i] + start[i];
}
