// Memory in the order of streams: what is freed is had again, by the same stream and by others; pools and their limits.
#include "hip_cases.h"

#include <set>

using Words = std::vector<uint32_t>;

static const uint32_t COUNT = 20011;
static const dim3 GRID((COUNT + 255) / 256), BLOCK(256);

__global__ void weave(uint32_t* to, const uint32_t* from, uint32_t count, uint32_t value) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) to[i] = from[count - 1 - i] * 7 + value;
}

static Words woven(const Words& from, uint32_t value) {
    Words to(from.size());
    for (size_t i = 0; i < from.size(); i++) to[i] = from[from.size() - 1 - i] * 7 + value;
    return to;
}

struct Stream {
    hipStream_t stream;
    Stream() { HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking)); }
    Stream(const Stream&) = delete;
    ~Stream() { HIP(hipStreamDestroy(stream)); }
    void wait() const { HIP(hipStreamSynchronize(stream)); }
};

static hipMemPool_t make_pool() {
    hipMemPoolProps properties = {};
    properties.allocType = hipMemAllocationTypePinned;
    properties.location.type = hipMemLocationTypeDevice;
    properties.location.id = 0;
    hipMemPool_t pool;
    HIP(hipMemPoolCreate(&pool, &properties));
    return pool;
}

static uint64_t attribute(hipMemPool_t pool, hipMemPoolAttr which) {
    uint64_t value = ~uint64_t(0);
    HIP(hipMemPoolGetAttribute(pool, which, &value));
    return value;
}

// Intermediate results of a chain of kernels live from one kernel to the next, and no longer.
CASE(malloc_async_chain) {
    Words from = noise(COUNT, 1), want = from, to(COUNT);
    Stream on;
    uint32_t* last = nullptr;
    HIP(hipMallocAsync((void**)&last, COUNT * 4, on.stream));
    HIP(hipMemcpyAsync(last, from.data(), COUNT * 4, hipMemcpyHostToDevice, on.stream));
    for (uint32_t i = 0; i < 30; i++) {
        uint32_t* next = nullptr;
        HIP(hipMallocAsync((void**)&next, COUNT * 4, on.stream));
        weave<<<GRID, BLOCK, 0, on.stream>>>(next, last, COUNT, i);
        LAUNCHED();
        HIP(hipFreeAsync(last, on.stream));
        last = next;
        want = woven(want, i);
    }
    HIP(hipMemcpyAsync(to.data(), last, COUNT * 4, hipMemcpyDeviceToHost, on.stream));
    HIP(hipFreeAsync(last, on.stream));
    on.wait();
    SAME_AS(to, want);
}

// Another stream uses the memory, and frees it, after an event.
CASE(malloc_async_across_streams) {
    Words from = noise(COUNT, 2), to(COUNT);
    Stream first, second;
    hipEvent_t filled;
    HIP(hipEventCreateWithFlags(&filled, hipEventDisableTiming));
    uint32_t *a = nullptr, *b = nullptr;
    HIP(hipMallocAsync((void**)&a, COUNT * 4, first.stream));
    HIP(hipMemcpyAsync(a, from.data(), COUNT * 4, hipMemcpyHostToDevice, first.stream));
    HIP(hipEventRecord(filled, first.stream));
    HIP(hipStreamWaitEvent(second.stream, filled, 0));
    HIP(hipMallocAsync((void**)&b, COUNT * 4, second.stream));
    weave<<<GRID, BLOCK, 0, second.stream>>>(b, a, COUNT, 3);
    LAUNCHED();
    HIP(hipMemcpyAsync(to.data(), b, COUNT * 4, hipMemcpyDeviceToHost, second.stream));
    HIP(hipFreeAsync(a, second.stream));
    HIP(hipFreeAsync(b, second.stream));
    second.wait();
    SAME_AS(to, woven(from, 3));
    HIP(hipEventDestroy(filled));
}

// Memory of either kind is freed by either call.
CASE(malloc_async_mixed_with_malloc) {
    Stream on;
    uint32_t *ordered = nullptr, *plain = nullptr;
    HIP(hipMallocAsync((void**)&ordered, COUNT * 4, on.stream));
    HIP(hipMalloc((void**)&plain, COUNT * 4));
    HIP(hipMemsetD32Async((hipDeviceptr_t)ordered, 77, COUNT, on.stream));
    weave<<<GRID, BLOCK, 0, on.stream>>>(plain, ordered, COUNT, 1);
    LAUNCHED();
    on.wait();
    Words to(COUNT);
    HIP(hipMemcpy(to.data(), plain, COUNT * 4, hipMemcpyDeviceToHost));
    SAME_AS(to, Words(COUNT, 540));
    HIP(hipFree(ordered));
    HIP(hipFreeAsync(plain, on.stream));
    on.wait();
}

// Blocks that live at the same time never share memory, whatever was freed in between.
CASE(malloc_async_blocks_are_apart) {
    Stream on;
    struct Live { uint32_t* at; uint32_t count, value; };
    std::vector<Live> live;
    Words order = noise(300, 3);
    for (uint32_t round = 0; round < 300; round++) {
        if (live.size() > 20) {
            Live gone = live[order[round] % live.size()];
            Words got(gone.count);
            HIP(hipMemcpyAsync(got.data(), gone.at, gone.count * 4, hipMemcpyDeviceToHost, on.stream));
            HIP(hipFreeAsync(gone.at, on.stream));
            on.wait();
            SAME_AS(got, Words(gone.count, gone.value));
            live.erase(live.begin() + order[round] % live.size());
        }
        Live made = {nullptr, 1 + order[round] % 9000, round + 1};
        HIP(hipMallocAsync((void**)&made.at, made.count * 4, on.stream));
        HIP(hipMemsetD32Async((hipDeviceptr_t)made.at, int(made.value), made.count, on.stream));
        live.push_back(made);
    }
    for (Live& one : live) HIP(hipFreeAsync(one.at, on.stream));
    on.wait();
}

CASE(pool_default_of_the_device) {
    hipMemPool_t usual = nullptr, current = nullptr, own = make_pool();
    HIP(hipDeviceGetDefaultMemPool(&usual, 0));
    HIP(hipDeviceGetMemPool(&current, 0));
    CHECK(usual && current == usual, "%p is the pool, %p the default", (void*)current, (void*)usual);
    HIP(hipDeviceSetMemPool(0, own));
    HIP(hipDeviceGetMemPool(&current, 0));
    CHECK(current == own, "%p is the pool, not %p", (void*)current, (void*)own);
    Stream on;
    void* memory = nullptr;
    HIP(hipMallocAsync(&memory, 1 << 20, on.stream));
    CHECK(attribute(own, hipMemPoolAttrUsedMemCurrent) >= 1 << 20, "the pool is not used");
    HIP(hipFreeAsync(memory, on.stream));
    on.wait();
    HIP(hipDeviceSetMemPool(0, usual));
    HIP(hipMemPoolDestroy(own));
}

// The pool counts what is used and the most that was.
CASE(pool_counts_its_memory) {
    hipMemPool_t pool = make_pool();
    Stream on;
    void *first = nullptr, *second = nullptr;
    const size_t size = 4 << 20;
    EQUAL(attribute(pool, hipMemPoolAttrUsedMemCurrent), 0);
    HIP(hipMallocFromPoolAsync(&first, size, pool, on.stream));
    uint64_t one = attribute(pool, hipMemPoolAttrUsedMemCurrent);
    CHECK(one >= size && one < 2 * size, "%llu bytes", (unsigned long long)one);
    HIP(hipMallocFromPoolAsync(&second, size, pool, on.stream));
    EQUAL(attribute(pool, hipMemPoolAttrUsedMemCurrent), 2 * one);
    HIP(hipFreeAsync(first, on.stream));
    HIP(hipFreeAsync(second, on.stream));
    on.wait();
    EQUAL(attribute(pool, hipMemPoolAttrUsedMemCurrent), 0);
    CHECK(attribute(pool, hipMemPoolAttrUsedMemHigh) >= 2 * one, "%llu bytes at most",
          (unsigned long long)attribute(pool, hipMemPoolAttrUsedMemHigh));
    HIP(hipMemPoolDestroy(pool));
}

// A pool that may keep everything gives the same memory again; trimmed, it keeps nothing.
CASE(pool_keeps_and_trims) {
    hipMemPool_t pool = make_pool();
    uint64_t keep = UINT64_MAX;
    HIP(hipMemPoolSetAttribute(pool, hipMemPoolAttrReleaseThreshold, &keep));
    EQUAL(attribute(pool, hipMemPoolAttrReleaseThreshold), keep);
    Stream on;
    std::set<void*> places;
    for (int round = 0; round < 10; round++) {
        void* memory = nullptr;
        HIP(hipMallocFromPoolAsync(&memory, 1 << 20, pool, on.stream));
        places.insert(memory);
        HIP(hipFreeAsync(memory, on.stream));
        on.wait();
    }
    EQUAL(places.size(), 1);
    CHECK(attribute(pool, hipMemPoolAttrReservedMemCurrent) >= 1 << 20, "nothing is kept");
    HIP(hipMemPoolTrimTo(pool, 0));
    EQUAL(attribute(pool, hipMemPoolAttrReservedMemCurrent), 0);
    HIP(hipMemPoolDestroy(pool));
}

// The access of the pool's own device.
CASE(pool_access) {
    hipMemPool_t pool = make_pool();
    hipMemLocation place = {hipMemLocationTypeDevice, 0};
    hipMemAccessFlags flags = hipMemAccessFlagsProtNone;
    HIP(hipMemPoolGetAccess(&flags, pool, &place));
    EQUAL(flags, hipMemAccessFlagsProtReadWrite);
    hipMemAccessDesc access = {place, hipMemAccessFlagsProtReadWrite};
    HIP(hipMemPoolSetAccess(pool, &access, 1));
    HIP(hipMemPoolDestroy(pool));
}

CASE(pool_mistakes) {
    void* memory = nullptr;
    Stream on;
    HIP_FAILS(hipMallocAsync(nullptr, 16, on.stream), hipErrorInvalidValue);
    HIP_FAILS(hipMallocFromPoolAsync(&memory, 16, nullptr, on.stream), hipErrorInvalidValue);
    // HIP 7 frees nothing, as `hipFree` does.
    if (HIP_VERSION_MAJOR >= 7) HIP(hipFreeAsync(nullptr, on.stream));
    else HIP_FAILS(hipFreeAsync(nullptr, on.stream), hipErrorInvalidValue);
    HIP_FAILS(hipMemPoolCreate(nullptr, nullptr), hipErrorInvalidValue);
    HIP_FAILS(hipMemPoolDestroy(nullptr), hipErrorInvalidValue);
    HIP_FAILS(hipDeviceGetDefaultMemPool(nullptr, 0), hipErrorInvalidValue);
    HIP_FAILS(hipMallocAsync(&memory, size_t(1) << 46, on.stream), hipErrorOutOfMemory);
    HIP(hipMallocAsync(&memory, 16, on.stream));
    HIP(hipFreeAsync(memory, on.stream));
    on.wait();
}
