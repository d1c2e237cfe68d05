// Allocators and libraries that are preloaded as well, and many processes at once.
#include "../hip/hip_cases.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <thread>

static const uint32_t COUNT = 10007;

__global__ void step(uint32_t* words, uint32_t count, uint32_t value) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) words[i] = words[i] * 5 + value;
}

// A case for children: eight threads that allocate, free and compute.
CASE(allocator_threads) {
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < 8; i++)
        threads.emplace_back([i] {
            for (uint32_t round = 0; round < 10; round++) {
                std::vector<uint32_t> want = noise(COUNT, i + round);
                Buffer<uint32_t> words(want);
                step<<<(COUNT + 255) / 256, 256>>>(words.data, COUNT, i);
                LAUNCHED();
                std::vector<char*> blocks;
                for (int block = 0; block < 60; block++) {
                    char* memory = (char*)malloc(size_t(1) << (block % 22));
                    memory[0] = 1;
                    blocks.push_back(memory);
                }
                for (char* block : blocks) free(block);
                for (uint32_t& word : want) word = word * 5 + i;
                // HIP 5.7.1 sometimes starts a copy from the device without the barrier packet that waits for the kernel, where
                // several threads use the null stream for the first time (its log shows the copy alone). Not so in 6.4.3.
                HIP(hipDeviceSynchronize());
                SAME_AS(words.read(), want);
            }
        });
    for (auto& thread : threads) thread.join();
    const char* wanted = getenv("PROBE_LIBRARY");
    if (!wanted) return;
    // The library that was asked for is there, beside ours.
    FILE* maps = fopen("/proc/self/maps", "r");
    char line[4096];
    int found = 0;
    while (fgets(line, sizeof line, maps)) found |= strstr(line, wanted) != nullptr;
    CHECK(found, "%s is not loaded", wanted);
}

// Runs a case of this program again, with a library in front.
static void with_library(const char* library, const char* name) {
    char self[4096], command[8192];
    ssize_t count = readlink("/proc/self/exe", self, sizeof self - 1);
    self[count > 0 ? count : 0] = 0;
    // The two ways a user writes it: before what is there, and instead of it.
    for (int way = 0; way < 2; way++) {
        snprintf(command, sizeof command, "PROBE_LIBRARY=%s LD_PRELOAD=%s%s exec %s %s", library, library,
                 way ? "" : ":$LD_PRELOAD", self, name);
        int status = system(command);
        CHECK(status == 0, "%s, way %d: status %#x", library, way, status);
    }
}

#define LIBRARIES "/usr/lib/x86_64-linux-gnu/"
CASE(allocator_jemalloc) { with_library(LIBRARIES "libjemalloc.so.2", "allocator_threads"); }
CASE(allocator_tcmalloc) { with_library(LIBRARIES "libtcmalloc_minimal.so.4", "allocator_threads"); }

CASE(processes_with_a_gpu_each) {
    pid_t children[4];
    for (pid_t& child : children) {
        child = fork();
        if (child == 0) {
            for (uint32_t round = 0; round < 20; round++) {
                std::vector<uint32_t> want = noise(COUNT, uint32_t(getpid()) + round);
                Buffer<uint32_t> words(want);
                SAME_AS(words.read(), want);
            }
            _exit(0);
        }
    }
    for (pid_t child : children) {
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "status %#x", status);
    }
}
