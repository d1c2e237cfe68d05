// Attention in tiles, as flash attention forms it: scores, a running maximum and sum, and their rescaling, in f32.
#include <cmath>

#include "common.h"

#define ROWS 1024
#define DEPTH 64
#define TILE 32

__global__ void attention(const float *q, const float *k, const float *v, float *out)
{
	__shared__ float keys[TILE][DEPTH], values[TILE][DEPTH];
	int row = blockIdx.x * blockDim.x + threadIdx.x;
	float query[DEPTH], sums[DEPTH] = {0}, most = -INFINITY, weight = 0;
	for (int at = 0; at < DEPTH; at++)
		query[at] = q[row * DEPTH + at];
	for (int first = 0; first < ROWS; first += TILE) {
		for (int at = threadIdx.x; at < TILE * DEPTH; at += blockDim.x) {
			keys[at / DEPTH][at % DEPTH] = k[first * DEPTH + at];
			values[at / DEPTH][at % DEPTH] = v[first * DEPTH + at];
		}
		__syncthreads();
		for (int key = 0; key < TILE; key++) {
			float score = 0;
			for (int at = 0; at < DEPTH; at++)
				score += query[at] * keys[key][at];
			score *= 0.125f;
			float larger = fmaxf(most, score), old = expf(most - larger), fresh = expf(score - larger);
			for (int at = 0; at < DEPTH; at++)
				sums[at] = sums[at] * old + fresh * values[key][at];
			weight = weight * old + fresh;
			most = larger;
		}
		__syncthreads();
	}
	for (int at = 0; at < DEPTH; at++)
		out[row * DEPTH + at] = sums[at] / weight;
}

static void on_host(const float *q, const float *k, const float *v, float *out, int row)
{
	float scores[ROWS], most = -INFINITY, weight = 0;
	for (int key = 0; key < ROWS; key++) {
		float score = 0;
		for (int at = 0; at < DEPTH; at++)
			score += q[row * DEPTH + at] * k[key * DEPTH + at];
		scores[key] = score * 0.125f;
		most = fmaxf(most, scores[key]);
	}
	for (int at = 0; at < DEPTH; at++)
		out[row * DEPTH + at] = 0;
	for (int key = 0; key < ROWS; key++) {
		float share = expf(scores[key] - most);
		weight += share;
		for (int at = 0; at < DEPTH; at++)
			out[row * DEPTH + at] += share * v[key * DEPTH + at];
	}
	for (int at = 0; at < DEPTH; at++)
		out[row * DEPTH + at] /= weight;
}

int main(int argc, char **argv)
{
	std::vector<float> data[3], out(ROWS * DEPTH), expected(ROWS * DEPTH);
	unsigned state = 1;
	for (auto &part : data) {
		part.resize(ROWS * DEPTH);
		for (float &value : part) {
			state = state * 1664525u + 1013904223u;
			value = (state >> 8) / 8388608.0f - 1;
		}
	}
	double begin = now();
	on_all_processors(ROWS, [&](int row) {
		on_host(data[0].data(), data[1].data(), data[2].data(), expected.data(), row);
	});
	if (on_processor(argc, argv)) {
		std::printf("work: %.6f s\n", now() - begin);
		return 0;
	}
	float *there[4];
	for (int part = 0; part < 4; part++) {
		CHECK(hipMalloc(&there[part], ROWS * DEPTH * 4));
		if (part < 3)
			CHECK(hipMemcpy(there[part], data[part].data(), ROWS * DEPTH * 4, hipMemcpyHostToDevice));
	}
	begin = now();
	attention<<<ROWS / 64, 64>>>(there[0], there[1], there[2], there[3]);
	CHECK(hipGetLastError());
	CHECK(hipDeviceSynchronize());
	double spent = now() - begin;
	CHECK(hipMemcpy(out.data(), there[3], ROWS * DEPTH * 4, hipMemcpyDeviceToHost));
	for (int at = 0; at < ROWS * DEPTH; at++)
		if (!(fabsf(out[at] - expected[at]) < 1e-4f)) {
			std::fprintf(stderr, "element %d is %g, not %g\n", at, out[at], expected[at]);
			return 1;
		}
	std::printf("work: %.6f s\n", spent);
}
