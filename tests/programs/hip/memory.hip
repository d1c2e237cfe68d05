// Memory of every kind: pinned, mapped, registered, managed, pools; who sees what whom wrote.
#include "hip_cases.h"

#include <sys/mman.h>

using Words = std::vector<uint32_t>;

__global__ void triple(uint32_t* words, uint32_t count) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) words[i] = words[i] * 3 + i;
}

static void expect_tripled(const uint32_t* got, Words want) {
    for (size_t i = 0; i < want.size(); i++) want[i] = want[i] * 3 + uint32_t(i);
    SAME(got, want.data(), want.size());
}

static const uint32_t COUNT = 100003;
static const dim3 GRID((COUNT + 255) / 256), BLOCK(256);

// A kernel works on pinned memory in place, through the pointer of the device.
static void kernel_on_host_memory(unsigned flags) {
    Words from = noise(COUNT, flags + 1);
    uint32_t *host = nullptr, *device = nullptr;
    HIP(hipHostMalloc((void**)&host, COUNT * 4, flags));
    memcpy(host, from.data(), COUNT * 4);
    HIP(hipHostGetDevicePointer((void**)&device, host, 0));
    triple<<<GRID, BLOCK>>>(device, COUNT);
    FINISHED();
    expect_tripled(host, from);
    unsigned got = 0;
    HIP(hipHostGetFlags(&got, host));
    CHECK((got & flags) == flags, "flags %#x of memory made with %#x", got, flags);
    HIP(hipHostFree(host));
}

CASE(host_malloc_mapped) { kernel_on_host_memory(hipHostMallocMapped); }
CASE(host_malloc_portable) { kernel_on_host_memory(hipHostMallocPortable); }
CASE(host_malloc_write_combined) { kernel_on_host_memory(hipHostMallocWriteCombined); }
CASE(host_malloc_coherent) { kernel_on_host_memory(hipHostMallocCoherent | hipHostMallocMapped); }
CASE(host_malloc_non_coherent) { kernel_on_host_memory(hipHostMallocNonCoherent); }
CASE(host_malloc_numa_user) { kernel_on_host_memory(hipHostMallocNumaUser); }

CASE(host_register) {
    Words from = noise(COUNT, 20);
    // A range that begins and ends inside pages.
    Words memory(COUNT + 64);
    uint32_t *host = memory.data() + 17, *device = nullptr;
    memcpy(host, from.data(), COUNT * 4);
    uint32_t before = memory[16] = 0xabcdef01, after = memory[17 + COUNT] = 0x12345678;
    HIP(hipHostRegister(host, COUNT * 4, hipHostRegisterDefault));
    HIP(hipHostGetDevicePointer((void**)&device, host, 0));
    triple<<<GRID, BLOCK>>>(device, COUNT);
    FINISHED();
    expect_tripled(host, from);
    HIP(hipHostUnregister(host));
    EQUAL(memory[16], before);
    EQUAL(memory[17 + COUNT], after);
    HIP_FAILS(hipHostUnregister(host), hipErrorHostMemoryNotRegistered);
}

CASE(host_register_mmap_many_times) {
    const size_t size = 1 << 20;
    for (int round = 0; round < 8; round++) {
        auto* host = (uint32_t*)mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(host != MAP_FAILED, "mmap");
        Words from = noise(size / 4, 30 + round);
        memcpy(host, from.data(), size);
        uint32_t* device = nullptr;
        HIP(hipHostRegister(host, size, hipHostRegisterMapped));
        HIP(hipHostGetDevicePointer((void**)&device, host, 0));
        triple<<<size / 1024, 256>>>(device, size / 4);
        FINISHED();
        expect_tripled(host, from);
        HIP(hipHostUnregister(host));
        munmap(host, size);
    }
}

CASE(host_register_copies) {
    Words from = noise(COUNT, 40), to(COUNT);
    HIP(hipHostRegister(from.data(), COUNT * 4, hipHostRegisterDefault));
    HIP(hipHostRegister(to.data(), COUNT * 4, hipHostRegisterDefault));
    Buffer<uint32_t> device(COUNT);
    HIP(hipMemcpyAsync(device.data, from.data(), COUNT * 4, hipMemcpyHostToDevice, nullptr));
    HIP(hipMemcpyAsync(to.data(), device.data, COUNT * 4, hipMemcpyDeviceToHost, nullptr));
    HIP(hipStreamSynchronize(nullptr));
    SAME_AS(to, from);
    HIP(hipHostUnregister(from.data()));
    HIP(hipHostUnregister(to.data()));
}

CASE(managed_memory) {
    Words from = noise(COUNT, 50);
    uint32_t* memory = nullptr;
    HIP(hipMallocManaged((void**)&memory, COUNT * 4, hipMemAttachGlobal));
    memcpy(memory, from.data(), COUNT * 4);
    // Host and device take turns on one pointer.
    for (int round = 0; round < 3; round++) {
        triple<<<GRID, BLOCK>>>(memory, COUNT);
        FINISHED();
        expect_tripled(memory, from);
        for (uint32_t i = 0; i < COUNT; i++) from[i] = memory[i] = memory[i] ^ (i * 77);
    }
    HIP(hipFree(memory));
}

CASE(managed_prefetch_and_advise) {
    Words from = noise(COUNT, 51);
    uint32_t* memory = nullptr;
    HIP(hipMallocManaged((void**)&memory, COUNT * 4, hipMemAttachGlobal));
    memcpy(memory, from.data(), COUNT * 4);
    HIP(hipMemAdvise(memory, COUNT * 4, hipMemAdviseSetPreferredLocation, 0));
    HIP(hipMemAdvise(memory, COUNT * 4, hipMemAdviseSetReadMostly, 0));
    HIP(hipMemAdvise(memory, COUNT * 4, hipMemAdviseUnsetReadMostly, 0));
    HIP(hipMemPrefetchAsync(memory, COUNT * 4, 0, nullptr));
    triple<<<GRID, BLOCK>>>(memory, COUNT);
    LAUNCHED();
    HIP(hipMemPrefetchAsync(memory, COUNT * 4, hipCpuDeviceId, nullptr));
    HIP(hipDeviceSynchronize());
    expect_tripled(memory, from);
    HIP(hipFree(memory));
}

__managed__ uint32_t managed_words[512];

__global__ void triple_managed() { managed_words[threadIdx.x] = managed_words[threadIdx.x] * 3 + threadIdx.x; }

CASE(managed_variable) {
    Words from = noise(512, 52);
    memcpy(managed_words, from.data(), sizeof managed_words);
    triple_managed<<<1, 512>>>();
    FINISHED();
    expect_tripled(managed_words, from);
}

CASE(malloc_async) {
    Words from = noise(COUNT, 60);
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    for (int round = 0; round < 10; round++) {
        uint32_t* device = nullptr;
        Words to(COUNT);
        HIP(hipMallocAsync((void**)&device, COUNT * 4, stream));
        HIP(hipMemcpyAsync(device, from.data(), COUNT * 4, hipMemcpyHostToDevice, stream));
        triple<<<GRID, BLOCK, 0, stream>>>(device, COUNT);
        LAUNCHED();
        HIP(hipMemcpyAsync(to.data(), device, COUNT * 4, hipMemcpyDeviceToHost, stream));
        HIP(hipFreeAsync(device, stream));
        HIP(hipStreamSynchronize(stream));
        expect_tripled(to.data(), from);
    }
    HIP(hipStreamDestroy(stream));
}

CASE(memory_pool) {
    hipMemPoolProps properties = {};
    properties.allocType = hipMemAllocationTypePinned;
    properties.location.type = hipMemLocationTypeDevice;
    hipMemPool_t pool;
    HIP(hipMemPoolCreate(&pool, &properties));
    uint64_t keep = UINT64_MAX, used = 0, reserved = 0;
    HIP(hipMemPoolSetAttribute(pool, hipMemPoolAttrReleaseThreshold, &keep));
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    Words from = noise(COUNT, 61), to(COUNT);
    uint32_t* device = nullptr;
    HIP(hipMallocFromPoolAsync((void**)&device, COUNT * 4, pool, stream));
    HIP(hipMemcpyAsync(device, from.data(), COUNT * 4, hipMemcpyHostToDevice, stream));
    triple<<<GRID, BLOCK, 0, stream>>>(device, COUNT);
    LAUNCHED();
    HIP(hipMemcpyAsync(to.data(), device, COUNT * 4, hipMemcpyDeviceToHost, stream));
    HIP(hipStreamSynchronize(stream));
    expect_tripled(to.data(), from);
    HIP(hipMemPoolGetAttribute(pool, hipMemPoolAttrUsedMemCurrent, &used));
    CHECK(used >= COUNT * 4, "%llu bytes used", (unsigned long long)used);
    HIP(hipFreeAsync(device, stream));
    HIP(hipStreamSynchronize(stream));
    HIP(hipMemPoolGetAttribute(pool, hipMemPoolAttrUsedMemCurrent, &used));
    EQUAL(used, 0);
    HIP(hipMemPoolGetAttribute(pool, hipMemPoolAttrReservedMemCurrent, &reserved));
    CHECK(reserved >= COUNT * 4, "%llu bytes kept", (unsigned long long)reserved);
    HIP(hipMemPoolTrimTo(pool, 0));
    HIP(hipMemPoolDestroy(pool));
    HIP(hipStreamDestroy(stream));
}

CASE(pointer_attributes) {
    Buffer<uint32_t> device(1000);
    hipPointerAttribute_t attributes;
    HIP(hipPointerGetAttributes(&attributes, device.data + 10));
    CHECK(attributes.devicePointer == device.data + 10 || attributes.devicePointer == device.data, "%p of %p",
          attributes.devicePointer, (void*)device.data);
    EQUAL(attributes.device, 0);
    EQUAL(attributes.isManaged, 0);
    void* host = nullptr;
    HIP(hipHostMalloc(&host, 4096, hipHostMallocDefault));
    HIP(hipPointerGetAttributes(&attributes, host));
    CHECK(attributes.hostPointer == host, "%p of %p", attributes.hostPointer, host);
    HIP(hipHostFree(host));
    hipDeviceptr_t base = nullptr;
    size_t size = 0;
    HIP(hipMemGetAddressRange(&base, &size, (hipDeviceptr_t)(device.data + 500)));
    CHECK(base == device.data, "%p of %p", base, (void*)device.data);
    EQUAL(size, 4000);
}

CASE(mem_get_info_follows_allocations) {
    size_t before = 0, during = 0, after = 0, total = 0;
    const size_t size = 32 << 20;
    HIP(hipFree(nullptr));
    HIP(hipMemGetInfo(&before, &total));
    CHECK(before <= total && total > 0, "%zu of %zu free", before, total);
    void* device = nullptr;
    HIP(hipMalloc(&device, size));
    HIP(hipMemGetInfo(&during, &total));
    CHECK(before - during >= size && before - during < 2 * size, "%zu before, %zu with %zu more", before, during, size);
    HIP(hipFree(device));
    HIP(hipMemGetInfo(&after, &total));
    EQUAL(after, before);
}

// Blocks of many sizes, freed in another order; none may overlap another.
CASE(many_allocations) {
    const size_t blocks = 200;
    std::vector<uint32_t*> device(blocks);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < blocks; i++) {
            size_t count = 1 + i * i % 40009;
            HIP(hipMalloc((void**)&device[i], count * 4));
            HIP(hipMemsetD32((hipDeviceptr_t)device[i], int(i + 1), count));
        }
        for (size_t n = 0; n < blocks; n++) {
            size_t i = n * 77 % blocks, count = 1 + i * i % 40009;
            Words got(count), want(count, uint32_t(i + 1));
            HIP(hipMemcpy(got.data(), device[i], count * 4, hipMemcpyDeviceToHost));
            SAME_AS(got, want);
            HIP(hipFree(device[i]));
        }
    }
}

// All of one large allocation is memory of its own.
CASE(large_allocation) {
    const size_t size = 256 << 20, step = 1 << 20;
    uint8_t* device = nullptr;
    HIP(hipMalloc((void**)&device, size));
    HIP(hipMemset(device, 0, size));
    for (size_t at = 0; at < size; at += step) {
        uint32_t word = uint32_t(at / step) * 2654435761u;
        HIP(hipMemcpy(device + at + step - 4, &word, 4, hipMemcpyHostToDevice));
    }
    for (size_t at = 0; at < size; at += step) {
        uint32_t words[2] = {1, 1}, want[2] = {0, uint32_t(at / step) * 2654435761u};
        HIP(hipMemcpy(words, device + at + step - 8, 8, hipMemcpyDeviceToHost));
        SAME(words, want, 2);
    }
    HIP(hipFree(device));
}

__global__ void wait_and_answer(volatile uint32_t* mailbox, uint32_t rounds) {
    for (uint32_t round = 1; round <= rounds; round++) {
        while (__atomic_load_n(&mailbox[0], __ATOMIC_ACQUIRE) < round) {}
        mailbox[2] = mailbox[1] * 3 + 1;
        __threadfence_system();
        __atomic_store_n(&mailbox[3], round, __ATOMIC_RELEASE);
    }
}

// Host and a running kernel talk through coherent memory.
CASE(coherent_memory_is_seen_while_a_kernel_runs) {
    const uint32_t rounds = 50;
    uint32_t* mailbox = nullptr;
    HIP(hipHostMalloc((void**)&mailbox, 4096, hipHostMallocCoherent));
    memset(mailbox, 0, 4096);
    wait_and_answer<<<1, 1>>>(mailbox, rounds);
    LAUNCHED();
    HIP(hipStreamQuery(nullptr) == hipErrorNotReady ? hipSuccess : hipErrorUnknown);
    for (uint32_t round = 1; round <= rounds; round++) {
        __atomic_store_n(&mailbox[1], round * 1000, __ATOMIC_RELAXED);
        __atomic_store_n(&mailbox[0], round, __ATOMIC_RELEASE);
        while (__atomic_load_n(&mailbox[3], __ATOMIC_ACQUIRE) < round) usleep(10);
        EQUAL(mailbox[2], round * 3000 + 1);
    }
    HIP(hipDeviceSynchronize());
    HIP(hipHostFree(mailbox));
}
