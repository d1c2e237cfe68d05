// GPUS 2
// Two GPUs and several processes: memory and events of another process, and faults that others do not notice.
#include "peers.h"

#include <signal.h>

#include <initializer_list>

// A child with a pipe each way; it is made before this process uses the runtime.
struct Child {
    int to, from;
    pid_t pid;

    explicit Child(void (*body)(int from, int to)) {
        int down[2], up[2];
        CHECK(pipe(down) == 0 && pipe(up) == 0, "pipe");
        fflush(stdout);
        pid = fork();
        if (pid == 0) {
            close(down[1]);
            close(up[0]);
            body(down[0], up[1]);
            _exit(0);
        }
        close(down[0]);
        close(up[1]);
        to = down[1];
        from = up[0];
    }

    void ends_well() const {
        int status = -1;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0, "status %#x", status);
    }
};

template <class T>
static void give(int to, const T& value) {
    CHECK(write(to, &value, sizeof value) == sizeof value, "the other process is gone");
}
template <class T>
static T take(int from) {
    T value;
    CHECK(read(from, &value, sizeof value) == sizeof value, "the other process is gone");
    return value;
}

static hipIpcMemHandle_t handle_of(void* memory) {
    hipIpcMemHandle_t handle;
    HIP(hipIpcGetMemHandle(&handle, memory));
    return handle;
}
template <class T>
static T* opened(const hipIpcMemHandle_t& handle) {
    void* memory = nullptr;
    HIP(hipIpcOpenMemHandle(&memory, handle, hipIpcMemLazyEnablePeerAccess));
    return (T*)memory;
}

// Each process opens the other's memory on the other device.
CASE(peers_memory_of_processes_both_ways) {
    Child child([](int from, int to) {
        on(1);
        Words want = noise(COUNT, 81);
        Buffer<uint32_t> mine(want);
        give(to, handle_of(mine.data));
        uint32_t* theirs = opened<uint32_t>(take<hipIpcMemHandle_t>(from));
        step<<<(COUNT + 255) / 256, 256>>>(theirs, theirs, COUNT);
        FINISHED();
        give(to, 'd');
        EQUAL(take<char>(from), 'd');
        stepped(want);
        SAME_AS(mine.read(), want);
        HIP(hipIpcCloseMemHandle(theirs));
        give(to, 'e');
        EQUAL(take<char>(from), 'e');
    });
    on(0);
    Words want = noise(COUNT, 82);
    Buffer<uint32_t> mine(want);
    uint32_t* theirs = opened<uint32_t>(take<hipIpcMemHandle_t>(child.from));
    give(child.to, handle_of(mine.data));
    step<<<(COUNT + 255) / 256, 256>>>(theirs, theirs, COUNT);
    FINISHED();
    give(child.to, 'd');
    EQUAL(take<char>(child.from), 'd');
    stepped(want);
    SAME_AS(mine.read(), want);
    EQUAL(take<char>(child.from), 'e');
    HIP(hipIpcCloseMemHandle(theirs));
    give(child.to, 'e');
    child.ends_well();
}

// Both devices of the child reach the parent's memory, one after the other.
CASE(peers_memory_of_a_process_on_both_devices) {
    Child child([](int from, int to) {
        hipIpcMemHandle_t handle = take<hipIpcMemHandle_t>(from);
        for (int device = 0; device < 2; device++) {
            HIP(hipSetDevice(device));
            uint32_t* words = opened<uint32_t>(handle);
            step<<<(COUNT + 255) / 256, 256>>>(words, words, COUNT);
            FINISHED();
            HIP(hipIpcCloseMemHandle(words));
        }
        give(to, 'd');
    });
    on(0);
    Words want = noise(COUNT, 83);
    Buffer<uint32_t> words(want);
    give(child.to, handle_of(words.data));
    EQUAL(take<char>(child.from), 'd');
    stepped(want);
    stepped(want);
    SAME_AS(words.read(), want);
    child.ends_well();
}

CASE(peers_copies_to_memory_of_a_process) {
    Child child([](int from, int to) {
        on(1);
        uint32_t* theirs = opened<uint32_t>(take<hipIpcMemHandle_t>(from));
        Buffer<uint32_t> mine(Words(COUNT, 0));
        HIP(hipMemcpy(mine.data, theirs, COUNT * 4, hipMemcpyDeviceToDevice));
        HIP(hipDeviceSynchronize());
        SAME_AS(mine.read(), noise(COUNT, 84));
        step_in_place(mine);
        HIP(hipMemcpy(theirs, mine.data, COUNT * 4, hipMemcpyDeviceToDevice));
        HIP(hipDeviceSynchronize());
        HIP(hipIpcCloseMemHandle(theirs));
        give(to, 'd');
    });
    on(0);
    Words want = noise(COUNT, 84);
    Buffer<uint32_t> words(want);
    give(child.to, handle_of(words.data));
    EQUAL(take<char>(child.from), 'd');
    stepped(want);
    SAME_AS(words.read(), want);
    child.ends_well();
}

__global__ void count_up(uint32_t* word) { __hip_atomic_fetch_add(word, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM); }

CASE(peers_atomics_of_two_processes) {
    Child child([](int from, int to) {
        HIP(hipSetDevice(1));
        uint32_t* word = opened<uint32_t>(take<hipIpcMemHandle_t>(from));
        give(to, 'r');
        for (int round = 0; round < 10; round++) count_up<<<16, 64>>>(word);
        FINISHED();
        HIP(hipIpcCloseMemHandle(word));
        give(to, 'd');
    });
    on(0, false);
    uint32_t* word = nullptr;
    HIP(hipMalloc((void**)&word, 1 << 21));
    HIP(hipMemset(word, 0, 4));
    HIP(hipDeviceSynchronize());
    give(child.to, handle_of(word));
    EQUAL(take<char>(child.from), 'r');
    for (int round = 0; round < 10; round++) count_up<<<16, 64>>>(word);
    FINISHED();
    EQUAL(take<char>(child.from), 'd');
    uint32_t all = 0;
    HIP(hipMemcpy(&all, word, 4, hipMemcpyDeviceToHost));
    EQUAL(all, 2 * 10 * 16 * 64);
    HIP(hipFree(word));
    child.ends_well();
}

__global__ void answer(uint32_t* own, uint32_t* other, uint32_t first, uint32_t rounds) {
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t wanted = 2 * round + first;
        while (__hip_atomic_load(own, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM) != wanted) __builtin_amdgcn_s_sleep(1);
        __hip_atomic_store(own, wanted + 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
        __hip_atomic_store(other, wanted + 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
    }
}

static uint32_t* uncached_word() {
    uint32_t* word = nullptr;
    HIP(hipExtMallocWithFlags((void**)&word, 4096, hipDeviceMallocUncached));
    HIP(hipMemset(word, 0, 4096));
    HIP(hipDeviceSynchronize());
    return word;
}

// Kernels of two processes, each on a device of its own, wait for each other's stores.
CASE(peers_kernels_of_two_processes_answer_each_other) {
    static const uint32_t rounds = 30;
    Child child([](int from, int to) {
        HIP(hipSetDevice(1));
        uint32_t* mine = uncached_word();
        give(to, handle_of(mine));
        uint32_t* theirs = opened<uint32_t>(take<hipIpcMemHandle_t>(from));
        answer<<<1, 1>>>(mine, theirs, 1, rounds);
        FINISHED();
        EQUAL(take<char>(from), 'd');
        HIP(hipIpcCloseMemHandle(theirs));
        give(to, 'd');
    });
    HIP(hipSetDevice(0));
    uint32_t* mine = uncached_word();
    uint32_t* theirs = opened<uint32_t>(take<hipIpcMemHandle_t>(child.from));
    give(child.to, handle_of(mine));
    answer<<<1, 1>>>(mine, theirs, 0, rounds);
    FINISHED();
    give(child.to, 'd');
    // The other kernel's last store is here only after its end.
    EQUAL(take<char>(child.from), 'd');
    uint32_t last = 0;
    HIP(hipMemcpy(&last, mine, 4, hipMemcpyDeviceToHost));
    EQUAL(last, 2 * rounds);
    HIP(hipIpcCloseMemHandle(theirs));
    HIP(hipFree(mine));
    child.ends_well();
}

CASE(peers_event_of_another_process) {
    Child child([](int from, int to) {
        hipIpcEventHandle_t handle = take<hipIpcEventHandle_t>(from);
        hipIpcMemHandle_t memory = take<hipIpcMemHandle_t>(from);
        on(0);
        hipEvent_t event;
        HIP(hipIpcOpenEventHandle(&event, handle));
        uint32_t* words = opened<uint32_t>(memory);
        give(to, 'r');
        EQUAL(take<char>(from), 's');
        // After the parent's work on the first device.
        HIP(hipEventSynchronize(event));
        Words got(COUNT), want = noise(COUNT, 85);
        for (int i = 0; i < 20; i++) stepped(want);
        HIP(hipMemcpy(got.data(), words, COUNT * 4, hipMemcpyDeviceToHost));
        SAME_AS(got, want);
        HIP(hipIpcCloseMemHandle(words));
        HIP(hipEventDestroy(event));
        give(to, 'd');
    });
    on(0);
    hipEvent_t event;
    HIP(hipEventCreateWithFlags(&event, hipEventDisableTiming | hipEventInterprocess));
    Buffer<uint32_t> words(noise(COUNT, 85));
    hipIpcEventHandle_t handle;
    HIP(hipIpcGetEventHandle(&handle, event));
    give(child.to, handle);
    give(child.to, handle_of(words.data));
    EQUAL(take<char>(child.from), 'r');
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    for (int i = 0; i < 20; i++) step_in_place(words, stream);
    HIP(hipEventRecord(event, stream));
    give(child.to, 's');
    EQUAL(take<char>(child.from), 'd');
    HIP(hipStreamDestroy(stream));
    HIP(hipEventDestroy(event));
    child.ends_well();
}

CASE(peers_handles_are_refused_with_an_error) {
    on(0);
    Buffer<uint32_t> words(COUNT);
    hipIpcMemHandle_t handle;
    HIP_FAILS(hipIpcGetMemHandle(nullptr, words.data), hipErrorInvalidValue);
    HIP_FAILS(hipIpcGetMemHandle(&handle, nullptr), hipErrorInvalidValue);
    HIP_FAILS(hipIpcOpenMemHandle(nullptr, handle, hipIpcMemLazyEnablePeerAccess), hipErrorInvalidValue);
    hipEvent_t event;
    HIP(hipEventCreate(&event));
    hipIpcEventHandle_t event_handle;
    HIP_FAILS(hipIpcGetEventHandle(&event_handle, event), hipErrorInvalidConfiguration);
    HIP_FAILS(hipIpcCloseMemHandle(words.data + 1), hipErrorInvalidValue);
    HIP(hipEventDestroy(event));
}

CASE(peers_many_processes_each_with_both) {
    std::vector<Child> children;
    for (int i = 0; i < 4; i++)
        children.emplace_back([](int, int) {
            for (int device = 0; device < 2; device++) {
                on(device);
                Words want = noise(COUNT, uint32_t(getpid()));
                Buffer<uint32_t> words(want);
                on(1 - device);
                for (int round = 0; round < 10; round++) {
                    step_in_place(words);
                    stepped(want);
                }
                HIP(hipDeviceSynchronize());
                SAME_AS(words.read(), want);
            }
        });
    for (const Child& child : children) child.ends_well();
}

__global__ void store_to(uint32_t* place) { *place = 1; }

// A child whose kernel on one device stores to memory that is not there; it does not come back from that well.
static void fault_on(int device) {
    on(device);
    store_to<<<1, 1>>>((uint32_t*)0x123456000);
    LAUNCHED();
    if (hipDeviceSynchronize() == hipSuccess) _exit(0);
    _exit(3);
}

CASE(peers_fault_of_another_process_is_not_noticed) {
    Child first([](int, int) { fault_on(0); });
    Child second([](int, int) { fault_on(1); });
    for (int device = 0; device < 2; device++) {
        on(device);
        Words want = noise(COUNT, 86);
        Buffer<uint32_t> words(want);
        for (int round = 0; round < 40; round++) {
            step_in_place(words);
            stepped(want);
        }
        HIP(hipDeviceSynchronize());
        SAME_AS(words.read(), want);
    }
    for (const Child* child : {&first, &second}) {
        int status = 0;
        CHECK(waitpid(child->pid, &status, 0) == child->pid && status != 0, "a fault that nobody noticed");
    }
}

// A process ends while another one works in its memory; that one's own memory is as it was.
CASE(peers_end_of_the_process_that_shares) {
    Child child([](int, int to) {
        on(1);
        Buffer<uint32_t> words(noise(COUNT, 87));
        give(to, handle_of(words.data));
        // Until it is killed.
        for (;;) pause();
    });
    on(0);
    uint32_t* theirs = opened<uint32_t>(take<hipIpcMemHandle_t>(child.from));
    Words want = noise(COUNT, 88);
    Buffer<uint32_t> mine(want);
    CHECK(kill(child.pid, SIGKILL) == 0, "kill");
    int status = 0;
    CHECK(waitpid(child.pid, &status, 0) == child.pid && WIFSIGNALED(status), "status %#x", status);
    // Memory stays as long as somebody has it open.
    step<<<(COUNT + 255) / 256, 256>>>(theirs, theirs, COUNT);
    step_in_place(mine);
    HIP(hipDeviceSynchronize());
    Words got(COUNT), left = noise(COUNT, 87);
    HIP(hipMemcpy(got.data(), theirs, COUNT * 4, hipMemcpyDeviceToHost));
    stepped(left);
    SAME_AS(got, left);
    stepped(want);
    SAME_AS(mine.read(), want);
    HIP(hipIpcCloseMemHandle(theirs));
}
