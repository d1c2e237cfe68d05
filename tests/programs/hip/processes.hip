// Processes and threads: forks, children, many threads, and memory that crosses between processes.
#include "hip_cases.h"

#include <atomic>
#include <thread>

using Words = std::vector<uint32_t>;

static const uint32_t COUNT = 30011;

__global__ void step(uint32_t* words, uint32_t count, uint32_t value) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) words[i] = words[i] * 5 + value;
}

static void work(uint32_t seed, uint32_t rounds, hipStream_t stream) {
    Words want = noise(COUNT, seed);
    Buffer<uint32_t> words(want);
    for (uint32_t round = 0; round < rounds; round++) {
        step<<<(COUNT + 255) / 256, 256, 0, stream>>>(words.data, COUNT, seed + round);
        LAUNCHED();
        for (uint32_t& word : want) word = word * 5 + seed + round;
    }
    HIP(hipStreamSynchronize(stream));
    SAME_AS(words.read(), want);
}

static void work_in_child() { work(uint32_t(getpid()), 4, nullptr); }

CASE(fork_before_use) {
    for (int i = 0; i < 3; i++) {
        char said[4096];
        int status = in_child(work_in_child, said, sizeof said);
        CHECK(status == 0, "status %#x: %s", status, said);
    }
    work(1, 4, nullptr);
}

// A child that does not touch the device leaves its parent's alone.
CASE(fork_after_use_for_something_else) {
    work(2, 4, nullptr);
    Words want = noise(COUNT, 3);
    Buffer<uint32_t> words(want);
    uint32_t* pinned = nullptr;
    HIP(hipHostMalloc((void**)&pinned, COUNT * 4, hipHostMallocDefault));
    char said[4096];
    int status = in_child([] { puts("hello"); }, said, sizeof said);
    CHECK(status == 0 && strcmp(said, "hello\n") == 0, "status %#x: %s", status, said);
    step<<<(COUNT + 255) / 256, 256>>>(words.data, COUNT, 1);
    LAUNCHED();
    HIP(hipMemcpy(pinned, words.data, COUNT * 4, hipMemcpyDeviceToHost));
    for (uint32_t& word : want) word = word * 5 + 1;
    SAME(pinned, want.data(), COUNT);
    HIP(hipHostFree(pinned));
    work(4, 4, nullptr);
}

// A child that becomes another program while the parent uses the device.
CASE(exec_after_use) {
    work(5, 4, nullptr);
    char said[4096];
    int status = in_child([] { execl("/bin/sh", "sh", "-c", "exit 5", nullptr); }, said, sizeof said);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5, "status %#x: %s", status, said);
    EQUAL(system("exit 6") >> 8, 6);
    work(6, 4, nullptr);
}

CASE(processes_at_once) {
    const int children = 4;
    pid_t child[children];
    fflush(stdout);
    for (pid_t& one : child) {
        one = fork();
        if (one == 0) {
            work(uint32_t(getpid()), 30, nullptr);
            _exit(0);
        }
    }
    for (pid_t one : child) {
        int status = -1;
        CHECK(waitpid(one, &status, 0) == one && status == 0, "status %#x", status);
    }
}

CASE(threads_each_with_its_stream) {
    const uint32_t count = 12;
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < count; i++) {
        threads.emplace_back([i] {
            hipStream_t stream;
            HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
            for (uint32_t round = 0; round < 5; round++) work(i * 100 + round, 5, stream);
            HIP(hipStreamDestroy(stream));
        });
    }
    for (auto& thread : threads) thread.join();
}

CASE(threads_share_one_stream) {
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < 8; i++)
        threads.emplace_back([i, stream] {
            for (uint32_t round = 0; round < 5; round++) work(i * 100 + round, 3, stream);
        });
    for (auto& thread : threads) thread.join();
    HIP(hipStreamDestroy(stream));
}

// The last thread to use the device is not the one that first did.
CASE(threads_come_and_go) {
    for (uint32_t i = 0; i < 20; i++) std::thread([i] { work(i, 2, hipStreamPerThread); }).join();
}

CASE(threads_allocate_at_once) {
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < 6; i++)
        threads.emplace_back([i] {
            for (uint32_t round = 0; round < 40; round++) {
                size_t count = 100 + (i * 977 + round * 131) % 9000;
                Buffer<uint32_t> words(count);
                HIP(hipMemsetD32((hipDeviceptr_t)words.data, int(i * 1000 + round), count));
                // HIP 5.7.1 lets copies of the null stream overtake another thread's kernels (docs/exec.md, "Limits").
                HIP(hipDeviceSynchronize());
                SAME_AS(words.read(), Words(count, i * 1000 + round));
            }
        });
    for (auto& thread : threads) thread.join();
}

__global__ void endless(uint32_t* flag) {
    while (__hip_atomic_load(flag, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM) == 0) {}
}

static void leave_with_a_kernel_running() {
    uint32_t* flag = nullptr;
    HIP(hipHostMalloc((void**)&flag, 4, hipHostMallocCoherent));
    *flag = 0;
    endless<<<1, 1>>>(flag);
    LAUNCHED();
    HIP_FAILS(hipStreamQuery(nullptr), hipErrorNotReady);
    _exit(7);
}

CASE(exit_with_a_kernel_running) {
    char said[4096];
    int status = in_child(leave_with_a_kernel_running, said, sizeof said);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %#x: %s", status, said);
    work(7, 4, nullptr);
}

// A child opens the parent's memory by its handle, changes it and says so.
CASE(ipc_memory_handle) {
    int to_child[2], to_parent[2];
    CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0, "pipe");
    pid_t child = fork();
    if (child == 0) {
        hipIpcMemHandle_t handle;
        uint32_t* words = nullptr;
        if (read(to_child[0], &handle, sizeof handle) != sizeof handle) _exit(1);
        HIP(hipIpcOpenMemHandle((void**)&words, handle, hipIpcMemLazyEnablePeerAccess));
        step<<<(COUNT + 255) / 256, 256>>>(words, COUNT, 1);
        FINISHED();
        HIP(hipIpcCloseMemHandle(words));
        _exit(write(to_parent[1], "d", 1) == 1 ? 0 : 1);
    }
    close(to_parent[1]);
    Words want = noise(COUNT, 8);
    Buffer<uint32_t> words(want);
    hipIpcMemHandle_t handle;
    HIP(hipIpcGetMemHandle(&handle, words.data));
    char done = 0;
    CHECK(write(to_child[1], &handle, sizeof handle) == sizeof handle, "write");
    if (read(to_parent[0], &done, 1) != 1) FAIL("the child could not open the handle");
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "status %#x", status);
    for (uint32_t& word : want) word = word * 5 + 1;
    SAME_AS(words.read(), want);
}

__global__ void add_one(uint32_t* sum) {
    __hip_atomic_fetch_add(sum, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

// Two children and their parent add to the same word, each with a GPU of its own as far as they know, and copy from it.
CASE(ipc_memory_in_two_processes) {
    int handles[2], done[2];
    CHECK(pipe(handles) == 0 && pipe(done) == 0, "pipe");
    pid_t children[2];
    for (pid_t& child : children) {
        child = fork();
        if (child != 0) continue;
        hipIpcMemHandle_t handle;
        uint32_t* sum = nullptr;
        if (read(handles[0], &handle, sizeof handle) != sizeof handle) _exit(1);
        HIP(hipIpcOpenMemHandle((void**)&sum, handle, hipIpcMemLazyEnablePeerAccess));
        for (int i = 0; i < 20; i++) add_one<<<4, 64>>>(sum);
        FINISHED();
        uint32_t seen = 0;
        HIP(hipMemcpy(&seen, sum, sizeof seen, hipMemcpyDeviceToHost));
        HIP(hipIpcCloseMemHandle(sum));
        _exit(seen >= 20 * 256 && write(done[1], "d", 1) == 1 ? 0 : 1);
    }
    close(done[1]);
    // A word behind others, so that it is a part of what the runtime allocates.
    Buffer<uint32_t> before(Words(3, 7)), sum(Words(1, 0));
    hipIpcMemHandle_t handle;
    HIP(hipIpcGetMemHandle(&handle, sum.data));
    for (int i = 0; i < 2; i++) CHECK(write(handles[1], &handle, sizeof handle) == sizeof handle, "write");
    for (int i = 0; i < 20; i++) add_one<<<4, 64>>>(sum.data);
    FINISHED();
    char said[2];
    for (char& one : said) {
        if (read(done[0], &one, 1) != 1) FAIL("a child could not open the handle");
    }
    for (pid_t child : children) {
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "status %#x", status);
    }
    SAME_AS(sum.read(), Words(1, 3 * 20 * 256));
    SAME_AS(before.read(), Words(3, 7));
}

// A child waits for an event of its parent's.
CASE(ipc_event_in_another_process) {
    int to_child[2], to_parent[2];
    CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0, "pipe");
    pid_t child = fork();
    if (child == 0) {
        hipIpcEventHandle_t handle;
        hipEvent_t event;
        if (read(to_child[0], &handle, sizeof handle) != sizeof handle) _exit(1);
        HIP(hipIpcOpenEventHandle(&event, handle));
        HIP(hipEventSynchronize(event));
        HIP(hipEventQuery(event));
        HIP(hipEventDestroy(event));
        _exit(write(to_parent[1], "d", 1) == 1 ? 0 : 1);
    }
    close(to_parent[1]);
    hipEvent_t event;
    HIP(hipEventCreateWithFlags(&event, hipEventInterprocess | hipEventDisableTiming));
    hipIpcEventHandle_t handle;
    HIP(hipIpcGetEventHandle(&handle, event));
    HIP(hipEventRecord(event, nullptr));
    CHECK(write(to_child[1], &handle, sizeof handle) == sizeof handle, "write");
    char done = 0;
    if (read(to_parent[0], &done, 1) != 1) FAIL("the child could not open the handle");
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "status %#x", status);
    HIP(hipEventDestroy(event));
}

CASE(ipc_event_handle) {
    hipEvent_t event;
    HIP(hipEventCreateWithFlags(&event, hipEventInterprocess | hipEventDisableTiming));
    hipIpcEventHandle_t handle;
    HIP(hipIpcGetEventHandle(&handle, event));
    HIP(hipEventRecord(event, nullptr));
    HIP(hipEventSynchronize(event));
    HIP(hipEventDestroy(event));
}
