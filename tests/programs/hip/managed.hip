// Managed memory where the driver has shared virtual memory: what properties promise, what advices change, and both sides at once.
#include "hip_cases.h"

#include <dirent.h>
#include <sys/mman.h>

#include <string>

static const uint32_t COUNT = 1u << 16, BLOCK = 256;
static const size_t BYTES = COUNT * sizeof(uint32_t);

// Whether the driver says that it has the SVM ioctl (HSA_CAP_SVMAPI_SUPPORTED).
static bool driver_has_svm() {
    const char* nodes = "/sys/class/kfd/kfd/topology/nodes";
    unsigned all = 0;
    DIR* entries = opendir(nodes);
    CHECK(entries, "no directory %s", nodes);
    while (dirent* entry = readdir(entries)) {
        FILE* file = fopen((std::string(nodes) + "/" + entry->d_name + "/properties").c_str(), "r");
        char key[64];
        unsigned long long value;
        while (file && fscanf(file, "%63s %llu", key, &value) == 2) {
            if (!strcmp(key, "capability")) all |= (unsigned)value;
        }
        if (file) fclose(file);
    }
    closedir(entries);
    return all & 0x08000000u;
}

struct Managed {
    uint32_t* words = nullptr;
    Managed() { HIP(hipMallocManaged((void**)&words, BYTES, hipMemAttachGlobal)); }
    ~Managed() { HIP(hipFree(words)); }
    int ask(hipMemRangeAttribute attribute) const {
        int value = 12345;
        HIP(hipMemRangeGetAttribute(&value, sizeof value, attribute, words, BYTES));
        return value;
    }
    void advise(hipMemoryAdvise advice, int device = 0) const { HIP(hipMemAdvise(words, BYTES, advice, device)); }
};

__global__ void add_index(uint32_t* words, uint32_t count) {
    uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) words[at] += at;
}

static void expect_sum(const uint32_t* words, uint32_t rounds) {
    for (uint32_t at = 0; at < COUNT; at++) EQUAL(words[at], 7 + rounds * at);
}

CASE(managed_properties_are_what_the_driver_has) {
    int svm = driver_has_svm();
    int managed = -1, concurrent = -1, pageable = -1;
    HIP(hipDeviceGetAttribute(&managed, hipDeviceAttributeManagedMemory, 0));
    HIP(hipDeviceGetAttribute(&concurrent, hipDeviceAttributeConcurrentManagedAccess, 0));
    HIP(hipDeviceGetAttribute(&pageable, hipDeviceAttributePageableMemoryAccess, 0));
    EQUAL(managed, svm);
    EQUAL(concurrent, svm);
    // Memory of malloc needs faults that are retried.
    EQUAL(pageable, 0);
}

CASE(managed_advices_are_told_by_attributes) {
    if (!driver_has_svm()) return;
    Managed memory;
    EQUAL(memory.ask(hipMemRangeAttributeReadMostly), 0);
    memory.advise(hipMemAdviseSetReadMostly);
    EQUAL(memory.ask(hipMemRangeAttributeReadMostly), 1);
    memory.advise(hipMemAdviseUnsetReadMostly);
    EQUAL(memory.ask(hipMemRangeAttributeReadMostly), 0);

    EQUAL(memory.ask(hipMemRangeAttributePreferredLocation), hipInvalidDeviceId);
    memory.advise(hipMemAdviseSetPreferredLocation, 0);
    EQUAL(memory.ask(hipMemRangeAttributePreferredLocation), 0);
    memory.advise(hipMemAdviseSetPreferredLocation, hipCpuDeviceId);
    EQUAL(memory.ask(hipMemRangeAttributePreferredLocation), hipCpuDeviceId);
    memory.advise(hipMemAdviseUnsetPreferredLocation, 0);
    EQUAL(memory.ask(hipMemRangeAttributePreferredLocation), hipInvalidDeviceId);

    memory.advise(hipMemAdviseSetAccessedBy, 0);
    EQUAL(memory.ask(hipMemRangeAttributeAccessedBy), 0);

    EQUAL(memory.ask(hipMemRangeAttributeCoherencyMode), hipMemRangeCoherencyModeFineGrain);
    memory.advise(hipMemAdviseSetCoarseGrain);
    EQUAL(memory.ask(hipMemRangeAttributeCoherencyMode), hipMemRangeCoherencyModeCoarseGrain);
    memory.advise(hipMemAdviseUnsetCoarseGrain);
    EQUAL(memory.ask(hipMemRangeAttributeCoherencyMode), hipMemRangeCoherencyModeFineGrain);
}

CASE(managed_memory_is_right_under_every_advice) {
    Managed memory;
    for (uint32_t at = 0; at < COUNT; at++) memory.words[at] = 7;
    const hipMemoryAdvise advices[] = {
        hipMemAdviseSetReadMostly,          hipMemAdviseUnsetReadMostly,  hipMemAdviseSetPreferredLocation,
        hipMemAdviseUnsetPreferredLocation, hipMemAdviseSetAccessedBy,    hipMemAdviseSetCoarseGrain,
        hipMemAdviseUnsetCoarseGrain,
    };
    uint32_t rounds = 0;
    for (hipMemoryAdvise advice : advices) {
        memory.advise(advice);
        add_index<<<COUNT / BLOCK, BLOCK>>>(memory.words, COUNT);
        FINISHED();
        expect_sum(memory.words, ++rounds);
    }
}

CASE(managed_prefetch_is_remembered_and_keeps_the_data) {
    Managed memory;
    for (uint32_t at = 0; at < COUNT; at++) memory.words[at] = 7;
    for (uint32_t round = 1; round <= 3; round++) {
        HIP(hipMemPrefetchAsync(memory.words, BYTES, 0, nullptr));
        HIP(hipStreamSynchronize(nullptr));
        if (driver_has_svm()) EQUAL(memory.ask(hipMemRangeAttributeLastPrefetchLocation), 0);
        add_index<<<COUNT / BLOCK, BLOCK>>>(memory.words, COUNT);
        LAUNCHED();
        HIP(hipMemPrefetchAsync(memory.words, BYTES, hipCpuDeviceId, nullptr));
        HIP(hipStreamSynchronize(nullptr));
        if (driver_has_svm()) EQUAL(memory.ask(hipMemRangeAttributeLastPrefetchLocation), hipCpuDeviceId);
        expect_sum(memory.words, round);
    }
}

// Waits for the processor's word and answers; gives up rather than to hang.
__global__ void answer(volatile uint32_t* words) {
    for (uint32_t round = 1; round <= 8; round++) {
        for (uint64_t tries = 0; words[0] != round; tries++) {
            if (tries == 1ull << 28) return;
        }
        words[1024] = round * 3;
        __threadfence_system();
    }
}

CASE(managed_memory_is_written_by_both_sides_while_a_kernel_runs) {
    if (!driver_has_svm()) return;
    Managed memory;
    volatile uint32_t* words = memory.words;
    words[0] = words[1024] = 0;
    answer<<<1, 1>>>(words);
    LAUNCHED();
    for (uint32_t round = 1; round <= 8; round++) {
        __atomic_store_n(&memory.words[0], round, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&memory.words[1024], __ATOMIC_SEQ_CST) != round * 3) {
            if (hipStreamQuery(nullptr) != hipErrorNotReady) break;
        }
    }
    HIP(hipDeviceSynchronize());
    EQUAL(words[1024], 24);
}

CASE(managed_memory_comes_and_goes_beside_a_running_kernel) {
    Managed flags;
    volatile uint32_t* words = flags.words;
    words[0] = words[1024] = 0;
    answer<<<1, 1>>>(words);
    LAUNCHED();
    for (uint32_t round = 1; round <= 8; round++) {
        // Registering and freeing other memory must not disturb the kernel.
        void* other = nullptr;
        HIP(hipMallocManaged(&other, (size_t)round << 20, hipMemAttachGlobal));
        memset(other, 0x5a, (size_t)round << 20);
        __atomic_store_n(&flags.words[0], round, __ATOMIC_SEQ_CST);
        void* plain = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(plain != MAP_FAILED, "mmap: errno %d", errno);
        CHECK(mprotect(plain, 1 << 20, PROT_READ) == 0, "mprotect: errno %d", errno);
        CHECK(munmap(plain, 1 << 20) == 0, "munmap: errno %d", errno);
        while (__atomic_load_n(&flags.words[1024], __ATOMIC_SEQ_CST) != round * 3) {
            if (hipStreamQuery(nullptr) != hipErrorNotReady) break;
        }
        CHECK(((uint8_t*)other)[1 << 19] == 0x5a, "other memory changed");
        // Freeing waits for the kernel: the last one is freed after it.
        if (round == 8) HIP(hipFree(other));
    }
    HIP(hipDeviceSynchronize());
    EQUAL(words[1024], 24);
}
