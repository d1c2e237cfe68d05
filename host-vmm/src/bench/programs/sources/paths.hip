// Double precision with divergence: paths of light between spheres. Lanes leave the loops one by one.
#include <cmath>

#include "common.h"

#define WIDTH 192
#define HEIGHT 144
#define SAMPLES 8
#define SPHERES 9

struct vec {
	double x, y, z;
};

__host__ __device__ inline vec operator+(vec a, vec b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
__host__ __device__ inline vec operator-(vec a, vec b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
__host__ __device__ inline vec operator*(vec a, double s) { return {a.x * s, a.y * s, a.z * s}; }
__host__ __device__ inline double dot(vec a, vec b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
__host__ __device__ inline vec unit(vec a) { return a * (1.0 / sqrt(dot(a, a))); }

__host__ __device__ inline double random(unsigned &state)
{
	state = state * 1664525u + 1013904223u;
	return (state >> 8) / 16777216.0;
}

__host__ __device__ inline vec centre(int sphere)
{
	return sphere == 0 ? vec{0, -1000, 0} : vec{(sphere % 3 - 1) * 2.2, 0.8, -(sphere / 3) * 2.0};
}

__host__ __device__ inline double radius(int sphere)
{
	return sphere == 0 ? 1000 : 0.8;
}

__host__ __device__ inline double light(int pixel)
{
	unsigned state = pixel * 9781u + 1;
	double sum = 0;
	for (int sample = 0; sample < SAMPLES; sample++) {
		vec from = {0, 1.5, 6};
		vec to = unit({(pixel % WIDTH + random(state)) / WIDTH * 3 - 1.5,
		               1 - (pixel / WIDTH + random(state)) / HEIGHT * 2, -2});
		double carried = 1;
		for (int bounce = 0; bounce < 12; bounce++) {
			double nearest = 1e30;
			int hit = -1;
			for (int sphere = 0; sphere < SPHERES; sphere++) {
				vec between = from - centre(sphere);
				double b = dot(between, to), r = radius(sphere);
				double c = dot(between, between) - r * r, inside = b * b - c;
				if (inside <= 0)
					continue;
				double at = -b - sqrt(inside);
				if (at > 1e-4 && at < nearest) {
					nearest = at;
					hit = sphere;
				}
			}
			if (hit < 0) {
				sum += carried * (0.5 + 0.5 * to.y);
				break;
			}
			from = from + to * nearest;
			vec normal = unit(from - centre(hit));
			if (hit % 3 == 1) {
				to = to - normal * (2 * dot(to, normal));
			} else {
				vec scattered;
				do
					scattered = {random(state) * 2 - 1, random(state) * 2 - 1, random(state) * 2 - 1};
				while (dot(scattered, scattered) > 1 || dot(scattered, scattered) == 0);
				to = unit(normal + unit(scattered) * 0.999);
			}
			carried *= hit == 0 ? 0.5 : 0.8;
			if (carried < 0.05)
				break;
		}
	}
	return sum / SAMPLES;
}

__global__ void render(double *image)
{
	int pixel = blockIdx.x * blockDim.x + threadIdx.x;
	if (pixel < WIDTH * HEIGHT)
		image[pixel] = light(pixel);
}

int main(int argc, char **argv)
{
	std::vector<double> image(WIDTH * HEIGHT);
	double begin = now();
	if (on_processor(argc, argv)) {
		on_all_processors(HEIGHT, [&](int row) {
			for (int column = 0; column < WIDTH; column++)
				image[row * WIDTH + column] = light(row * WIDTH + column);
		});
	} else {
		double *there;
		CHECK(hipMalloc(&there, image.size() * sizeof(double)));
		begin = now();
		render<<<(WIDTH * HEIGHT + 63) / 64, 64>>>(there);
		CHECK(hipGetLastError());
		CHECK(hipMemcpy(image.data(), there, image.size() * sizeof(double), hipMemcpyDeviceToHost));
	}
	double spent = now() - begin, sum = 0;
	for (double value : image)
		sum += value;
	// Roots and products are rounded alike everywhere, but compilers contract them differently.
	if (!(sum > WIDTH * HEIGHT * 0.2 && sum < WIDTH * HEIGHT * 0.98)) {
		std::fprintf(stderr, "the image is wrong: %f\n", sum);
		return 1;
	}
	std::printf("work: %.6f s\n", spent);
}
