// Streams, events, callbacks: what runs after what, and what is told about it.
#include "hip_cases.h"

#include <atomic>

using Words = std::vector<uint32_t>;

// A step that does not commute with another one.
__global__ void step(uint32_t* words, uint32_t count, uint32_t value) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) words[i] = words[i] * 5 + value;
}

__global__ void wait_for(uint32_t* flag) {
    while (__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM) == 0) {}
}

__global__ void raise(uint32_t* flag) { __hip_atomic_store(flag, 1u, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM); }

static const uint32_t COUNT = 20000;

static void launch_step(hipStream_t stream, uint32_t* words, uint32_t value) {
    step<<<(COUNT + 255) / 256, 256, 0, stream>>>(words, COUNT, value);
    LAUNCHED();
}

static Words stepped(Words words, std::initializer_list<uint32_t> values) {
    for (uint32_t value : values)
        for (uint32_t& word : words) word = word * 5 + value;
    return words;
}

// A word of host memory that kernels see at once.
struct Flag {
    uint32_t* word = nullptr;
    Flag() {
        HIP(hipHostMalloc((void**)&word, 4, hipHostMallocCoherent));
        *word = 0;
    }
    Flag(const Flag&) = delete;
    ~Flag() { HIP(hipHostFree(word)); }
    void raise() { __atomic_store_n(word, 1, __ATOMIC_RELEASE); }
};

CASE(streams_several) {
    const int streams = 8;
    hipStream_t stream[streams];
    std::vector<Buffer<uint32_t>*> buffers;
    Words from = noise(COUNT, 1);
    for (auto& one : stream) {
        HIP(hipStreamCreate(&one));
        buffers.push_back(new Buffer<uint32_t>(from));
    }
    for (uint32_t round = 0; round < 5; round++)
        for (uint32_t i = 0; i < streams; i++) launch_step(stream[i], buffers[i]->data, round * 10 + i);
    for (uint32_t i = 0; i < streams; i++) {
        HIP(hipStreamSynchronize(stream[i]));
        SAME_AS(buffers[i]->read(), stepped(from, {i, 10 + i, 20 + i, 30 + i, 40 + i}));
        delete buffers[i];
        HIP(hipStreamDestroy(stream[i]));
    }
}

// One kernel waits for another: both must run at the same time.
CASE(streams_run_side_by_side) {
    Flag flag;
    hipStream_t waits, raises;
    HIP(hipStreamCreateWithFlags(&waits, hipStreamNonBlocking));
    HIP(hipStreamCreateWithFlags(&raises, hipStreamNonBlocking));
    wait_for<<<1, 32, 0, waits>>>(flag.word);
    LAUNCHED();
    HIP_FAILS(hipStreamQuery(waits), hipErrorNotReady);
    raise<<<1, 1, 0, raises>>>(flag.word);
    LAUNCHED();
    HIP(hipStreamSynchronize(waits));
    HIP(hipStreamQuery(waits));
    HIP(hipStreamDestroy(waits));
    HIP(hipStreamDestroy(raises));
}

// The null stream waits for blocking streams and they for it.
CASE(stream_blocking_is_ordered_with_the_null_stream) {
    Words from = noise(COUNT, 2);
    Buffer<uint32_t> words(from);
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    launch_step(stream, words.data, 1);
    launch_step(nullptr, words.data, 2);
    launch_step(stream, words.data, 3);
    launch_step(nullptr, words.data, 4);
    HIP(hipDeviceSynchronize());
    SAME_AS(words.read(), stepped(from, {1, 2, 3, 4}));
    HIP(hipStreamDestroy(stream));
}

CASE(stream_non_blocking_passes_the_null_stream) {
    Flag flag;
    Words from = noise(COUNT, 3);
    Buffer<uint32_t> words(from);
    hipStream_t stream;
    unsigned flags = 0;
    HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    HIP(hipStreamGetFlags(stream, &flags));
    EQUAL(flags, hipStreamNonBlocking);
    wait_for<<<1, 1>>>(flag.word);
    LAUNCHED();
    launch_step(stream, words.data, 9);
    HIP(hipStreamSynchronize(stream));
    HIP_FAILS(hipStreamQuery(nullptr), hipErrorNotReady);
    flag.raise();
    HIP(hipDeviceSynchronize());
    SAME_AS(words.read(), stepped(from, {9}));
    HIP(hipStreamDestroy(stream));
}

CASE(stream_per_thread) {
    Words from = noise(COUNT, 4);
    Buffer<uint32_t> words(from);
    launch_step(hipStreamPerThread, words.data, 1);
    launch_step(hipStreamPerThread, words.data, 2);
    HIP(hipStreamSynchronize(hipStreamPerThread));
    SAME_AS(words.read(), stepped(from, {1, 2}));
}

CASE(stream_priorities) {
    int least = 0, greatest = 0;
    HIP(hipDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK(greatest < least, "priorities from %d to %d", greatest, least);
    Words from = noise(COUNT, 5);
    for (int priority = greatest; priority <= least; priority++) {
        hipStream_t stream;
        int got = 99;
        Buffer<uint32_t> words(from);
        HIP(hipStreamCreateWithPriority(&stream, hipStreamNonBlocking, priority));
        HIP(hipStreamGetPriority(stream, &got));
        EQUAL(got, priority);
        launch_step(stream, words.data, 7);
        HIP(hipStreamSynchronize(stream));
        SAME_AS(words.read(), stepped(from, {7}));
        HIP(hipStreamDestroy(stream));
    }
}

CASE(stream_cu_mask) {
    const uint32_t mask[1] = {0x0000000f};
    uint32_t got[1] = {0};
    hipStream_t stream;
    HIP(hipExtStreamCreateWithCUMask(&stream, 1, mask));
    HIP(hipExtStreamGetCUMask(stream, 1, got));
    EQUAL(got[0], mask[0]);
    Words from = noise(COUNT, 6);
    Buffer<uint32_t> words(from);
    launch_step(stream, words.data, 11);
    launch_step(stream, words.data, 12);
    HIP(hipStreamSynchronize(stream));
    SAME_AS(words.read(), stepped(from, {11, 12}));
    HIP(hipStreamDestroy(stream));
}

CASE(event_timing) {
    Words from = noise(COUNT, 7);
    Buffer<uint32_t> words(from);
    hipEvent_t start, middle, stop;
    HIP(hipEventCreate(&start));
    HIP(hipEventCreate(&middle));
    HIP(hipEventCreate(&stop));
    HIP(hipEventRecord(start, nullptr));
    launch_step(nullptr, words.data, 1);
    HIP(hipEventRecord(middle, nullptr));
    for (int i = 0; i < 20; i++) launch_step(nullptr, words.data, 1);
    HIP(hipEventRecord(stop, nullptr));
    HIP(hipEventSynchronize(stop));
    float first = -1, second = -1, whole = -1;
    HIP(hipEventElapsedTime(&first, start, middle));
    HIP(hipEventElapsedTime(&second, middle, stop));
    HIP(hipEventElapsedTime(&whole, start, stop));
    CHECK(first > 0 && second > 0 && whole > 0, "%f, %f and %f ms", first, second, whole);
    CHECK(whole >= first && whole >= second, "%f ms of %f and %f", whole, first, second);
    HIP(hipEventDestroy(start));
    HIP(hipEventDestroy(middle));
    HIP(hipEventDestroy(stop));
}

CASE(event_query_and_synchronize) {
    for (unsigned flags : {hipEventDefault, hipEventBlockingSync, hipEventDisableTiming}) {
        Flag flag;
        hipEvent_t event;
        HIP(hipEventCreateWithFlags(&event, flags));
        wait_for<<<1, 1>>>(flag.word);
        LAUNCHED();
        HIP(hipEventRecord(event, nullptr));
        HIP_FAILS(hipEventQuery(event), hipErrorNotReady);
        flag.raise();
        HIP(hipEventSynchronize(event));
        HIP(hipEventQuery(event));
        HIP(hipEventDestroy(event));
    }
}

CASE(event_never_recorded_is_done) {
    hipEvent_t event, other;
    HIP(hipEventCreate(&event));
    HIP(hipEventCreate(&other));
    HIP(hipEventQuery(event));
    HIP(hipEventSynchronize(event));
    float time = 0;
    HIP_FAILS(hipEventElapsedTime(&time, event, other), hipErrorInvalidHandle);
    HIP(hipEventDestroy(event));
    HIP(hipEventDestroy(other));
}

CASE(stream_wait_event_orders_two_streams) {
    Flag flag;
    Words from = noise(COUNT, 8);
    Buffer<uint32_t> words(from);
    hipStream_t first, second;
    hipEvent_t event, back;
    HIP(hipStreamCreateWithFlags(&first, hipStreamNonBlocking));
    HIP(hipStreamCreateWithFlags(&second, hipStreamNonBlocking));
    HIP(hipEventCreateWithFlags(&event, hipEventDisableTiming));
    HIP(hipEventCreateWithFlags(&back, hipEventDisableTiming));
    wait_for<<<1, 1, 0, first>>>(flag.word);
    LAUNCHED();
    launch_step(first, words.data, 1);
    HIP(hipEventRecord(event, first));
    HIP(hipStreamWaitEvent(second, event, 0));
    launch_step(second, words.data, 2);
    HIP(hipEventRecord(back, second));
    HIP(hipStreamWaitEvent(first, back, 0));
    launch_step(first, words.data, 3);
    HIP_FAILS(hipStreamQuery(second), hipErrorNotReady);
    flag.raise();
    HIP(hipStreamSynchronize(first));
    SAME_AS(words.read(), stepped(from, {1, 2, 3}));
    HIP(hipStreamDestroy(first));
    HIP(hipStreamDestroy(second));
    HIP(hipEventDestroy(event));
    HIP(hipEventDestroy(back));
}

// What a callback finds when it is called.
struct Seen {
    uint32_t* pinned;
    std::atomic<uint32_t> value{0}, calls{0};
};

CASE(stream_callback) {
    Seen seen;
    HIP(hipHostMalloc((void**)&seen.pinned, COUNT * 4, hipHostMallocDefault));
    Words from = noise(COUNT, 9);
    Buffer<uint32_t> words(from);
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    launch_step(stream, words.data, 1);
    HIP(hipMemcpyAsync(seen.pinned, words.data, COUNT * 4, hipMemcpyDeviceToHost, stream));
    auto callback = [](hipStream_t, hipError_t status, void* data) {
        auto* seen = (Seen*)data;
        if (status != hipSuccess) FAIL("the callback was given %s", hipGetErrorName(status));
        seen->value = seen->pinned[COUNT - 1];
        seen->calls++;
    };
    HIP(hipStreamAddCallback(stream, callback, &seen, 0));
    launch_step(stream, words.data, 2);
    HIP(hipStreamAddCallback(stream, callback, &seen, 0));
    HIP(hipStreamSynchronize(stream));
    EQUAL(seen.calls, 2);
    EQUAL(seen.value, stepped(from, {1})[COUNT - 1]);
    SAME_AS(words.read(), stepped(from, {1, 2}));
    HIP(hipStreamDestroy(stream));
    HIP(hipHostFree(seen.pinned));
}

// Work behind a host function waits for it: the function raises the value the next copy takes.
CASE(launch_host_function) {
    uint32_t* pinned = nullptr;
    HIP(hipHostMalloc((void**)&pinned, 4, hipHostMallocDefault));
    *pinned = 1;
    Buffer<uint32_t> word(1);
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    for (int i = 0; i < 5; i++) {
        HIP(hipLaunchHostFunc(
            stream, [](void* data) { usleep(2000); *(uint32_t*)data *= 3; }, pinned));
    }
    HIP(hipMemcpyAsync(word.data, pinned, 4, hipMemcpyHostToDevice, stream));
    HIP(hipStreamSynchronize(stream));
    EQUAL(word.read()[0], 243);
    HIP(hipStreamDestroy(stream));
    HIP(hipHostFree(pinned));
}

CASE(launches_500_back_to_back) {
    Words from = noise(COUNT, 10), want = from;
    Buffer<uint32_t> words(from);
    for (uint32_t i = 0; i < 500; i++) {
        launch_step(nullptr, words.data, i);
        want = stepped(want, {i});
    }
    HIP(hipDeviceSynchronize());
    SAME_AS(words.read(), want);
}

CASE(launches_500_each_synchronized) {
    Buffer<uint32_t> word(Words{1});
    uint32_t want = 1;
    for (uint32_t i = 0; i < 500; i++) {
        step<<<1, 1>>>(word.data, 1, i);
        FINISHED();
        want = want * 5 + i;
    }
    EQUAL(word.read()[0], want);
}

// Streams come and go; each is a queue of its own or a share of one.
CASE(streams_made_and_destroyed_many_times) {
    Words from = noise(COUNT, 11);
    Buffer<uint32_t> words(from);
    for (uint32_t i = 0; i < 40; i++) {
        hipStream_t stream;
        HIP(hipStreamCreate(&stream));
        launch_step(stream, words.data, i);
        HIP(hipStreamDestroy(stream)); // with work in it
        from = stepped(from, {i});
        HIP(hipDeviceSynchronize());
    }
    SAME_AS(words.read(), from);
}

__global__ void write_value(uint32_t* words, uint32_t at, uint32_t value) { words[at] = value; }

CASE(stream_wait_and_write_value) {
    int supported = 0;
    HIP(hipDeviceGetAttribute(&supported, hipDeviceAttributeCanUseStreamWaitValue, 0));
    EQUAL(supported, 1);
    uint32_t* signal = nullptr;
    HIP(hipExtMallocWithFlags((void**)&signal, 8, hipMallocSignalMemory));
    *(volatile uint64_t*)signal = 0;
    Buffer<uint32_t> words(2);
    words.clear();
    hipStream_t waits, writes;
    HIP(hipStreamCreateWithFlags(&waits, hipStreamNonBlocking));
    HIP(hipStreamCreateWithFlags(&writes, hipStreamNonBlocking));
    HIP(hipStreamWaitValue32(waits, signal, 5, hipStreamWaitValueGte));
    write_value<<<1, 1, 0, waits>>>(words.data, 0, 77);
    LAUNCHED();
    HIP_FAILS(hipStreamQuery(waits), hipErrorNotReady);
    HIP(hipStreamWriteValue32(writes, signal, 6, 0));
    HIP(hipStreamSynchronize(writes));
    HIP(hipStreamSynchronize(waits));
    EQUAL(words.read()[0], 77);
    EQUAL(*(volatile uint32_t*)signal, 6);
    HIP(hipStreamDestroy(waits));
    HIP(hipStreamDestroy(writes));
    HIP(hipFree(signal));
}
