// GPUS 2
// Atomics, streams, events and graphs over two GPUs.
#include "peers.h"

#include <algorithm>
#include <atomic>
#include <thread>

enum { ITEMS = 8 * 128 };

// A word of memory that both reach while both run, with a value.
template <class T>
static T* shared_words(const std::vector<T>& values) {
    T* words = nullptr;
    on(0);
    HIP(hipExtMallocWithFlags((void**)&words, values.size() * sizeof(T), hipDeviceMallocUncached));
    HIP(hipMemcpy(words, values.data(), values.size() * sizeof(T), hipMemcpyHostToDevice));
    return words;
}

template <class T>
static std::vector<T> finish_and_read(T* words, size_t count) {
    for (int device = 0; device < 2; device++) {
        on(device);
        HIP(hipDeviceSynchronize());
    }
    std::vector<T> got(count);
    HIP(hipMemcpy(got.data(), words, count * sizeof(T), hipMemcpyDeviceToHost));
    HIP(hipFree(words));
    return got;
}

#define SCOPE __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM

template <class T>
__global__ void every_atomic(T* words, T device) {
    T mine = (blockIdx.x * blockDim.x + threadIdx.x) * 2 + device;
    __hip_atomic_fetch_add(&words[0], mine, SCOPE);
    __hip_atomic_fetch_min(&words[1], mine + 5, SCOPE);
    __hip_atomic_fetch_max(&words[2], mine, SCOPE);
    __hip_atomic_fetch_and(&words[3], ~(T(1) << (mine % (sizeof(T) * 8 - 1))), SCOPE);
    __hip_atomic_fetch_or(&words[4], T(1) << (mine % (sizeof(T) * 8)), SCOPE);
    __hip_atomic_fetch_xor(&words[5], mine, SCOPE);
    // Adds by compare and swap.
    T seen = __hip_atomic_load(&words[6], SCOPE);
    while (!__hip_atomic_compare_exchange_strong(&words[6], &seen, seen + mine, __ATOMIC_RELAXED, SCOPE)) {}
}

template <class T>
static void every_atomic_of_both() {
    T* words = shared_words(std::vector<T>{0, T(~T(0)), 0, T(~T(0)), 0, 0, 0});
    for (int round = 0; round < 2; round++)
        for (int device = 0; device < 2; device++) {
            on(device);
            every_atomic<T><<<8, 128>>>(words, T(device));
            LAUNCHED();
        }
    std::vector<T> got = finish_and_read(words, 7), want{0, T(~T(0)), 0, T(~T(0)), 0, 0, 0};
    for (int round = 0; round < 2; round++)
        for (T mine = 0; mine < 2 * ITEMS; mine++) {
            want[0] += mine;
            want[1] = std::min<T>(want[1], mine + 5);
            want[2] = std::max<T>(want[2], mine);
            want[3] &= ~(T(1) << (mine % (sizeof(T) * 8 - 1)));
            want[4] |= T(1) << (mine % (sizeof(T) * 8));
            want[5] ^= mine;
            want[6] += mine;
        }
    SAME_AS(got, want);
}

CASE(peers_atomics_of_32_bits) { every_atomic_of_both<uint32_t>(); }
CASE(peers_atomics_of_64_bits) { every_atomic_of_both<uint64_t>(); }

template <class T>
__global__ void add_floats(T* sums, T device) {
    T mine = T((blockIdx.x * blockDim.x + threadIdx.x) % 61) + device * 100;
    __hip_atomic_fetch_add(&sums[threadIdx.x % 4], mine, SCOPE);
}

// Whole numbers: every order gives the same sum.
template <class T>
static void float_atomics_of_both() {
    T* words = shared_words(std::vector<T>(4, T(1)));
    for (int device = 0; device < 2; device++) {
        on(device);
        add_floats<T><<<8, 128>>>(words, T(device));
        LAUNCHED();
    }
    std::vector<T> got = finish_and_read(words, 4), want(4, T(1));
    for (int device = 0; device < 2; device++)
        for (int item = 0; item < ITEMS; item++) want[item % 4] += T(item % 61) + T(device) * 100;
    SAME_AS(got, want);
}

CASE(peers_atomics_of_float) { float_atomics_of_both<float>(); }
CASE(peers_atomics_of_double) { float_atomics_of_both<double>(); }

__global__ void take_tickets(uint32_t* next, uint32_t* taken) {
    for (int i = 0; i < 4; i++) {
        uint32_t ticket = __hip_atomic_fetch_add(next, 1u, SCOPE);
        __hip_atomic_fetch_add(&taken[ticket], 1u, SCOPE);
    }
}

CASE(peers_tickets_are_taken_once) {
    const size_t all = 2 * ITEMS * 4;
    uint32_t* next = shared_words(Words(1, 0));
    uint32_t* taken = shared_words(Words(all + 64, 0));
    for (int device = 0; device < 2; device++) {
        on(device);
        take_tickets<<<8, 128>>>(next, taken);
        LAUNCHED();
    }
    Words got = finish_and_read(taken, all + 64), want(all + 64, 0);
    std::fill(want.begin(), want.begin() + all, 1);
    SAME_AS(got, want);
    EQUAL(finish_and_read(next, 1)[0], all);
}

__global__ void add_under_lock(uint32_t* lock, uint32_t* counts, uint32_t rounds) {
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t free = 0;
        while (!__hip_atomic_compare_exchange_strong(lock, &free, 1u, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED,
                                                     __HIP_MEMORY_SCOPE_SYSTEM)) {
            free = 0;
            __builtin_amdgcn_s_sleep(1);
        }
        // Plain loads and stores, which only the lock keeps apart.
        for (int i = 0; i < 8; i++) counts[i] += i + 1;
        __hip_atomic_store(lock, 0u, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
    }
}

CASE(peers_share_a_lock) {
    uint32_t* words = shared_words(Words(16, 0));
    for (int device = 0; device < 2; device++) {
        on(device);
        // One work-item of each group, of four groups on each device.
        add_under_lock<<<4, 1>>>(words, words + 8, 25);
        LAUNCHED();
    }
    Words got = finish_and_read(words, 16), want(16, 0);
    for (int i = 0; i < 8; i++) want[8 + i] = 2 * 4 * 25 * (i + 1);
    SAME_AS(got, want);
}

// Data and a flag in 8 bytes, as RCCL's LL protocol sends them. There are two lines for each lane: the other one may be a
// round ahead.
__global__ void send_and_receive(uint64_t* own, uint64_t* other, uint32_t device, uint32_t rounds, uint32_t* wrong) {
    for (uint32_t round = 1; round <= rounds; round++) {
        uint32_t data = (round * 2654435761u) ^ (threadIdx.x << 1 | device);
        uint32_t line = round % 2 * blockDim.x + threadIdx.x;
        __hip_atomic_store(&other[line], uint64_t(round) << 32 | data, SCOPE);
        uint64_t got;
        do got = __hip_atomic_load(&own[line], SCOPE);
        while (uint32_t(got >> 32) != round);
        uint32_t want = (round * 2654435761u) ^ (threadIdx.x << 1 | (1 - device));
        if (uint32_t(got) != want) __hip_atomic_fetch_add(wrong, 1u, SCOPE);
    }
}

CASE(peers_lines_of_data_and_flag) {
    const int lanes = 64;
    uint64_t* lines[2];
    uint32_t* wrong = shared_words(Words(1, 0));
    for (int device = 0; device < 2; device++) {
        on(device);
        HIP(hipExtMallocWithFlags((void**)&lines[device], 2 * lanes * 8, hipDeviceMallocUncached));
        HIP(hipMemset(lines[device], 0, 2 * lanes * 8));
        HIP(hipDeviceSynchronize());
    }
    for (int device = 0; device < 2; device++) {
        on(device);
        send_and_receive<<<1, lanes>>>(lines[device], lines[1 - device], device, 60, wrong);
        LAUNCHED();
    }
    EQUAL(finish_and_read(wrong, 1)[0], 0);
    for (uint64_t* line : lines) HIP(hipFree(line));
}

CASE(peers_events_of_the_other_one_are_refused) {
    hipStream_t streams[2];
    hipEvent_t events[2];
    for (int device = 0; device < 2; device++) {
        on(device);
        HIP(hipStreamCreate(&streams[device]));
        HIP(hipEventCreate(&events[device]));
    }
    // An event is recorded on its own device, and time is between events of one.
    HIP_FAILS(hipEventRecord(events[0], streams[1]), hipErrorInvalidHandle);
    for (int device = 0; device < 2; device++) HIP(hipEventRecord(events[device], streams[device]));
    for (hipEvent_t event : events) HIP(hipEventSynchronize(event));
    float time = 0;
    HIP_FAILS(hipEventElapsedTime(&time, events[0], events[1]), hipErrorInvalidHandle);
    for (int device = 0; device < 2; device++) {
        on(device);
        HIP(hipStreamDestroy(streams[device]));
        HIP(hipEventDestroy(events[device]));
    }
}

CASE(peers_streams_know_their_devices) {
    hipStream_t streams[2];
    for (int device = 0; device < 2; device++) {
        on(device);
        HIP(hipStreamCreate(&streams[device]));
    }
    for (int device = 0; device < 2; device++) {
        on(1 - device);
        hipDevice_t found = -1;
        HIP(hipStreamGetDevice(streams[device], &found));
        EQUAL(found, device);
        HIP(hipStreamQuery(streams[device]));
        HIP(hipStreamSynchronize(streams[device]));
        HIP(hipStreamDestroy(streams[device]));
    }
}

CASE(peers_long_chain_of_streams_and_events) {
    const int streams = 6, links = 120;
    hipStream_t stream[streams];
    hipEvent_t event[streams];
    for (int i = 0; i < streams; i++) {
        on(i % 2);
        HIP(hipStreamCreateWithFlags(&stream[i], hipStreamNonBlocking));
        HIP(hipEventCreateWithFlags(&event[i], hipEventDisableTiming));
    }
    on(0);
    Words want = noise(COUNT, 61);
    Buffer<uint32_t> words(want);
    for (int link = 0; link < links; link++) {
        int now = link * 5 % streams, before = (link - 1) * 5 % streams;
        on(now % 2);
        if (link > 0) HIP(hipStreamWaitEvent(stream[now], event[before], 0));
        step_in_place(words, stream[now]);
        HIP(hipEventRecord(event[now], stream[now]));
        stepped(want);
    }
    HIP(hipEventSynchronize(event[(links - 1) * 5 % streams]));
    SAME_AS(words.read(), want);
    for (int i = 0; i < streams; i++) {
        on(i % 2);
        HIP(hipStreamDestroy(stream[i]));
        HIP(hipEventDestroy(event[i]));
    }
}

__global__ void wait_for_word(uint32_t* word, uint32_t wanted, uint32_t answer) {
    while (__hip_atomic_load(word, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM) != wanted) __builtin_amdgcn_s_sleep(1);
    __hip_atomic_store(word, answer, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
}

__global__ void set_word(uint32_t* word, uint32_t value) {
    __hip_atomic_store(word, value, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
}

// A kernel of one that does not end holds up nothing of the other one.
CASE(peers_wait_for_each_other_s_kernels_only_when_asked) {
    uint32_t* word = nullptr;
    on(0);
    HIP(hipHostMalloc((void**)&word, 64, hipHostMallocPortable | hipHostMallocCoherent));
    *word = 0;
    wait_for_word<<<1, 1>>>(word, 7, 8);
    LAUNCHED();
    on(1);
    Words want = noise(COUNT, 62);
    Buffer<uint32_t> words(want);
    for (int i = 0; i < 20; i++) {
        step_in_place(words);
        stepped(want);
    }
    HIP(hipDeviceSynchronize());
    SAME_AS(words.read(), want);
    on(0);
    HIP_FAILS(hipStreamQuery(nullptr), hipErrorNotReady);
    // A kernel of the other device ends it.
    on(1);
    set_word<<<1, 1>>>(word, 7);
    FINISHED();
    on(0);
    HIP(hipDeviceSynchronize());
    EQUAL(*(volatile uint32_t*)word, 8);
    HIP(hipHostFree(word));
}

CASE(peers_streams_wait_for_values) {
    uint32_t* word = nullptr;
    on(0);
    HIP(hipHostMalloc((void**)&word, 64, hipHostMallocPortable | hipHostMallocCoherent));
    *word = 0;
    hipStream_t streams[2];
    Words want = noise(COUNT, 63);
    Buffer<uint32_t> words(want);
    for (int device = 0; device < 2; device++) {
        on(device);
        HIP(hipStreamCreateWithFlags(&streams[device], hipStreamNonBlocking));
    }
    for (uint32_t turn = 0; turn < 10; turn++) {
        on(turn % 2);
        HIP(hipStreamWaitValue32(streams[turn % 2], word, turn, hipStreamWaitValueEq, 0xffffffff));
        step_in_place(words, streams[turn % 2]);
        HIP(hipStreamWriteValue32(streams[turn % 2], word, turn + 1, 0));
        stepped(want);
    }
    for (hipStream_t stream : streams) HIP(hipStreamSynchronize(stream));
    EQUAL(*(volatile uint32_t*)word, 10);
    SAME_AS(words.read(), want);
    for (hipStream_t stream : streams) HIP(hipStreamDestroy(stream));
    HIP(hipHostFree(word));
}

CASE(peers_host_functions_follow_the_work_of_both) {
    hipStream_t streams[2];
    static std::atomic<int> calls;
    calls = 0;
    on(0);
    Words want = noise(COUNT, 64);
    Buffer<uint32_t> words(want);
    hipEvent_t event;
    HIP(hipEventCreateWithFlags(&event, hipEventDisableTiming));
    for (int device = 0; device < 2; device++) {
        on(device);
        HIP(hipStreamCreate(&streams[device]));
    }
    on(0);
    step_in_place(words, streams[0]);
    HIP(hipEventRecord(event, streams[0]));
    on(1);
    HIP(hipStreamWaitEvent(streams[1], event, 0));
    step_in_place(words, streams[1]);
    HIP(hipLaunchHostFunc(streams[1], [](void*) { calls++; }, nullptr));
    HIP(hipStreamSynchronize(streams[1]));
    EQUAL(calls.load(), 1);
    stepped(want);
    stepped(want);
    SAME_AS(words.read(), want);
    for (hipStream_t stream : streams) HIP(hipStreamDestroy(stream));
    HIP(hipEventDestroy(event));
}

CASE(peers_threads_each_with_its_device) {
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < 6; i++)
        threads.emplace_back([i] {
            on(int(i % 2));
            Words want = noise(COUNT, 65 + i);
            Buffer<uint32_t> words(want);
            hipStream_t stream;
            HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
            for (int round = 0; round < 20; round++) {
                step_in_place(words, stream);
                stepped(want);
            }
            HIP(hipStreamSynchronize(stream));
            SAME_AS(words.read(), want);
            HIP(hipStreamDestroy(stream));
        });
    for (std::thread& thread : threads) thread.join();
}

// A graph for each device; the second one's work comes after the first one's. (HIP 7.2 starts a graph's kernels all on the
// device of the stream that it is launched on.)
CASE(peers_graphs_of_each_device_in_turn) {
    hipStream_t streams[2];
    hipEvent_t events[2];
    hipGraph_t graphs[2];
    hipGraphExec_t ready[2];
    on(0);
    Words want = noise(COUNT, 72);
    Buffer<uint32_t> words(want);
    for (int device = 0; device < 2; device++) {
        on(device);
        HIP(hipStreamCreateWithFlags(&streams[device], hipStreamNonBlocking));
        HIP(hipEventCreateWithFlags(&events[device], hipEventDisableTiming));
        HIP(hipDeviceSynchronize());
        HIP(hipStreamBeginCapture(streams[device], hipStreamCaptureModeRelaxed));
        for (int i = 0; i < 3; i++) step_in_place(words, streams[device]);
        HIP(hipStreamEndCapture(streams[device], &graphs[device]));
        size_t nodes = 0;
        HIP(hipGraphGetNodes(graphs[device], nullptr, &nodes));
        EQUAL(nodes, 3);
        HIP(hipGraphInstantiate(&ready[device], graphs[device], nullptr, nullptr, 0));
    }
    for (int turn = 0; turn < 10; turn++) {
        int device = turn % 2;
        on(device);
        if (turn > 0) HIP(hipStreamWaitEvent(streams[device], events[1 - device], 0));
        HIP(hipGraphLaunch(ready[device], streams[device]));
        HIP(hipEventRecord(events[device], streams[device]));
        for (int i = 0; i < 3; i++) stepped(want);
    }
    HIP(hipEventSynchronize(events[1]));
    SAME_AS(words.read(), want);
    for (int device = 0; device < 2; device++) {
        on(device);
        HIP(hipGraphExecDestroy(ready[device]));
        HIP(hipGraphDestroy(graphs[device]));
        HIP(hipStreamDestroy(streams[device]));
        HIP(hipEventDestroy(events[device]));
    }
}

CASE(peers_graph_copies_between_them) {
    on(1);
    Buffer<uint32_t> there(Words(COUNT, 0));
    on(0);
    Words want = noise(COUNT, 73);
    Buffer<uint32_t> here(want);
    HIP(hipDeviceSynchronize());
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    hipGraph_t graph;
    hipGraphNode_t go, come;
    HIP(hipGraphCreate(&graph, 0));
    HIP(hipGraphAddMemcpyNode1D(&go, graph, nullptr, 0, there.data, here.data, here.bytes(), hipMemcpyDeviceToDevice));
    hipMemsetParams clear = {};
    clear.dst = here.data;
    clear.elementSize = 4;
    clear.width = COUNT;
    clear.height = 1;
    clear.value = 5;
    hipGraphNode_t set;
    HIP(hipGraphAddMemsetNode(&set, graph, &go, 1, &clear));
    HIP(hipGraphAddMemcpyNode1D(&come, graph, &set, 1, here.data, there.data, here.bytes(), hipMemcpyDeviceToDevice));
    hipGraphExec_t ready;
    HIP(hipGraphInstantiate(&ready, graph, nullptr, nullptr, 0));
    for (int round = 0; round < 3; round++) HIP(hipGraphLaunch(ready, stream));
    HIP(hipStreamSynchronize(stream));
    SAME_AS(here.read(), want);
    SAME_AS(there.read(), want);
    HIP(hipGraphExecDestroy(ready));
    HIP(hipGraphDestroy(graph));
    HIP(hipStreamDestroy(stream));
}
