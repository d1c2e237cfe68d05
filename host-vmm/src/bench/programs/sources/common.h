// Parts of the benchmark's own programs: errors of HIP, time, and the same function on the processor.
#pragma once
#include <hip/hip_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define CHECK(call)                                                                   \
	do {                                                                          \
		hipError_t error = (call);                                            \
		if (error != hipSuccess) {                                            \
			std::fprintf(stderr, "%s: %s\n", #call, hipGetErrorString(error)); \
			std::exit(1);                                                 \
		}                                                                     \
	} while (0)

inline double now()
{
	return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// True if the program was asked to do its work on the processor.
inline bool on_processor(int argc, char **argv)
{
	return argc > 1 && !std::strcmp(argv[1], "cpu");
}

// Calls `work(index)` for each index below `count`, on all processors.
template <typename Work> void on_all_processors(int count, Work work)
{
	unsigned threads = std::thread::hardware_concurrency();
	std::vector<std::thread> all;
	for (unsigned thread = 0; thread < threads; thread++)
		all.emplace_back([=] {
			for (int index = thread; index < count; index += threads)
				work(index);
		});
	for (auto &thread : all)
		thread.join();
}
