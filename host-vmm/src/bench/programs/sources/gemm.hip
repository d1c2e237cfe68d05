// A product of f16 matrices by matrix instructions, one wave for each tile of 16 x 16.
#include <cmath>

#include "common.h"

#define SIZE 1024

typedef _Float16 half;
typedef half halves4 __attribute__((ext_vector_type(4)));
typedef half halves8 __attribute__((ext_vector_type(8)));
typedef half halves16 __attribute__((ext_vector_type(16)));
typedef float floats4 __attribute__((ext_vector_type(4)));
typedef float floats8 __attribute__((ext_vector_type(8)));

// `b` is stored by columns.
__global__ void multiply(const half *a, const half *b, float *c)
{
	int lane = threadIdx.x, row = blockIdx.y * 16, column = blockIdx.x * 16;
	(void)lane, (void)row, (void)column;
#if defined(__gfx1100__)
	floats8 sum = {0};
	for (int at = 0; at < SIZE; at += 16) {
		halves16 x = *(const halves16 *)(a + (row + lane % 16) * SIZE + at);
		halves16 y = *(const halves16 *)(b + (column + lane % 16) * SIZE + at);
		sum = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, y, sum);
	}
	for (int part = 0; part < 8; part++)
		c[(row + part * 2 + lane / 16) * SIZE + column + lane % 16] = sum[part];
#elif defined(__gfx1201__)
	floats8 sum = {0};
	for (int at = 0; at < SIZE; at += 16) {
		halves8 x = *(const halves8 *)(a + (row + lane % 16) * SIZE + at + lane / 16 * 8);
		halves8 y = *(const halves8 *)(b + (column + lane % 16) * SIZE + at + lane / 16 * 8);
		sum = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(x, y, sum);
	}
	for (int part = 0; part < 8; part++)
		c[(row + part + lane / 16 * 8) * SIZE + column + lane % 16] = sum[part];
#elif defined(__gfx942__)
	floats4 sum = {0};
	for (int at = 0; at < SIZE; at += 16) {
		halves4 x = *(const halves4 *)(a + (row + lane % 16) * SIZE + at + lane / 16 * 4);
		halves4 y = *(const halves4 *)(b + (column + lane % 16) * SIZE + at + lane / 16 * 4);
		sum = __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, sum, 0, 0, 0);
	}
	for (int part = 0; part < 4; part++)
		c[(row + part + lane / 16 * 4) * SIZE + column + lane % 16] = sum[part];
#endif
}

static void row_on_host(const float *a, const float *b, float *c, int row)
{
	for (int column = 0; column < SIZE; column++) {
		float sum = 0;
		for (int at = 0; at < SIZE; at++)
			sum += a[row * SIZE + at] * b[column * SIZE + at];
		c[row * SIZE + column] = sum;
	}
}

int main(int argc, char **argv)
{
	int count = SIZE * SIZE;
	std::vector<half> a(count), b(count);
	std::vector<float> wide_a(count), wide_b(count), c(count), expected(count);
	unsigned state = 1;
	for (int at = 0; at < count; at++) {
		state = state * 1664525u + 1013904223u;
		wide_a[at] = a[at] = (half)((int)(state >> 28) - 8);
		wide_b[at] = b[at] = (half)((int)(state >> 24 & 15) - 8);
	}
	double begin = now();
	if (on_processor(argc, argv)) {
		on_all_processors(SIZE, [&](int row) { row_on_host(wide_a.data(), wide_b.data(), expected.data(), row); });
		std::printf("work: %.6f s\n", now() - begin);
		return 0;
	}
	hipDeviceProp_t properties;
	CHECK(hipGetDeviceProperties(&properties, 0));
	half *of_a, *of_b;
	float *of_c;
	CHECK(hipMalloc(&of_a, count * 2));
	CHECK(hipMalloc(&of_b, count * 2));
	CHECK(hipMalloc(&of_c, count * 4));
	CHECK(hipMemcpy(of_a, a.data(), count * 2, hipMemcpyHostToDevice));
	CHECK(hipMemcpy(of_b, b.data(), count * 2, hipMemcpyHostToDevice));
	begin = now();
	multiply<<<dim3(SIZE / 16, SIZE / 16), properties.warpSize>>>(of_a, of_b, of_c);
	CHECK(hipGetLastError());
	CHECK(hipDeviceSynchronize());
	double spent = now() - begin;
	CHECK(hipMemcpy(c.data(), of_c, count * 4, hipMemcpyDeviceToHost));
	on_all_processors(SIZE, [&](int row) { row_on_host(wide_a.data(), wide_b.data(), expected.data(), row); });
	// The numbers are small integers, whose sums f32 holds exactly.
	if (c != expected) {
		std::fprintf(stderr, "the product is wrong\n");
		return 1;
	}
	std::printf("work: %.6f s\n", spent);
}
