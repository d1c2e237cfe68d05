// Keys of 8 and 16 bits: counts, and the number of smaller ones before each, as sorts need them.
#include <cstdint>

#include "common.h"

#define KEYS (1 << 20)
#define BLOCK 256

__global__ void count(const uint8_t *bytes, const int16_t *halves, unsigned *counts, unsigned *below)
{
	__shared__ unsigned seen[256];
	__shared__ int16_t near[BLOCK];
	int thread = threadIdx.x, at = blockIdx.x * BLOCK + thread;
	seen[thread] = 0;
	near[thread] = halves[at];
	__syncthreads();
	atomicAdd(&seen[bytes[at]], 1u);
	unsigned smaller = 0;
	int16_t own = near[thread];
	for (int other = 0; other < BLOCK; other++)
		smaller += near[other] < own || (near[other] == own && other < thread);
	below[at] = smaller;
	__syncthreads();
	if (seen[thread])
		atomicAdd(&counts[thread], seen[thread]);
}

int main(int argc, char **argv)
{
	std::vector<uint8_t> bytes(KEYS);
	std::vector<int16_t> halves(KEYS);
	std::vector<unsigned> counts(256), below(KEYS), expected(256), ranks(KEYS);
	unsigned state = 1;
	for (int at = 0; at < KEYS; at++) {
		state = state * 1664525u + 1013904223u;
		bytes[at] = state >> 24;
		halves[at] = state >> 13;
	}
	auto block = [&](int number) {
		for (int thread = 0; thread < BLOCK; thread++) {
			unsigned smaller = 0;
			const int16_t *near = &halves[number * BLOCK];
			for (int other = 0; other < BLOCK; other++)
				smaller += near[other] < near[thread] || (near[other] == near[thread] && other < thread);
			ranks[number * BLOCK + thread] = smaller;
		}
	};
	double begin = now();
	if (on_processor(argc, argv)) {
		on_all_processors(KEYS / BLOCK, block);
		for (uint8_t byte : bytes)
			expected[byte]++;
		std::printf("work: %.6f s\n", now() - begin);
		return 0;
	}
	uint8_t *of_bytes;
	int16_t *of_halves;
	unsigned *of_counts, *of_below;
	CHECK(hipMalloc(&of_bytes, KEYS));
	CHECK(hipMalloc(&of_halves, KEYS * 2));
	CHECK(hipMalloc(&of_counts, 1024));
	CHECK(hipMalloc(&of_below, KEYS * 4));
	CHECK(hipMemcpy(of_bytes, bytes.data(), KEYS, hipMemcpyHostToDevice));
	CHECK(hipMemcpy(of_halves, halves.data(), KEYS * 2, hipMemcpyHostToDevice));
	CHECK(hipMemset(of_counts, 0, 1024));
	begin = now();
	count<<<KEYS / BLOCK, BLOCK>>>(of_bytes, of_halves, of_counts, of_below);
	CHECK(hipGetLastError());
	CHECK(hipDeviceSynchronize());
	double spent = now() - begin;
	CHECK(hipMemcpy(counts.data(), of_counts, 1024, hipMemcpyDeviceToHost));
	CHECK(hipMemcpy(below.data(), of_below, KEYS * 4, hipMemcpyDeviceToHost));
	on_all_processors(KEYS / BLOCK, block);
	for (uint8_t byte : bytes)
		expected[byte]++;
	if (counts != expected || below != ranks) {
		std::fprintf(stderr, "a count or a rank is wrong\n");
		return 1;
	}
	std::printf("work: %.6f s\n", spent);
}
