// GPUS 2
// Memory of every kind between two GPUs: managed, fine-grained, of the host, of pools, and mapped by hand.
#include "peers.h"

static const unsigned GROUPS = (COUNT + 255) / 256;

// Both devices step the words in turns, and the processor looks in between.
template <class Read>
static void in_turns(uint32_t* words, Words want, Read read) {
    for (int turn = 0; turn < 6; turn++) {
        on(turn % 2);
        step<<<GROUPS, 256>>>(words, words, COUNT);
        FINISHED();
        stepped(want);
        if (turn % 3 == 2) SAME_AS(read(), want);
    }
}

CASE(peers_managed_memory_goes_between_them) {
    uint32_t* words = nullptr;
    HIP(hipMallocManaged((void**)&words, COUNT * 4, hipMemAttachGlobal));
    Words want = noise(COUNT, 51);
    memcpy(words, want.data(), COUNT * 4);
    in_turns(words, want, [words] { return Words(words, words + COUNT); });
    HIP(hipFree(words));
}

CASE(peers_managed_memory_is_prefetched_to_each) {
    uint32_t* words = nullptr;
    HIP(hipMallocManaged((void**)&words, COUNT * 4, hipMemAttachGlobal));
    Words want = noise(COUNT, 52);
    memcpy(words, want.data(), COUNT * 4);
    for (int turn = 0; turn < 6; turn++) {
        int device = turn % 2;
        on(device);
        HIP(hipMemAdvise(words, COUNT * 4, hipMemAdviseSetPreferredLocation, device));
        HIP(hipMemAdvise(words, COUNT * 4, hipMemAdviseSetAccessedBy, 1 - device));
        HIP(hipMemPrefetchAsync(words, COUNT * 4, device, nullptr));
        // The one that has it and the one that reaches it.
        step<<<GROUPS, 256>>>(words, words, COUNT);
        FINISHED();
        on(1 - device);
        step<<<GROUPS, 256>>>(words, words, COUNT);
        FINISHED();
        stepped(want);
        stepped(want);
        SAME(words, want.data(), COUNT);
    }
    HIP(hipFree(words));
}

__global__ void count_to_each_other(uint32_t* words, uint32_t first, uint32_t rounds) {
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t wanted = 2 * round + first;
        while (__hip_atomic_load(words, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM) != wanted) __builtin_amdgcn_s_sleep(1);
        words[1 + first] += wanted;
        __hip_atomic_store(words, wanted + 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
    }
}

// Kernels of both at once count up one word in turns.
static void take_turns_on(uint32_t* words) {
    const uint32_t rounds = 40;
    for (uint32_t device = 0; device < 2; device++) {
        on(int(device));
        count_to_each_other<<<1, 1>>>(words, device, rounds);
        LAUNCHED();
    }
    for (int device = 0; device < 2; device++) {
        on(device);
        HIP(hipDeviceSynchronize());
    }
    Words got(3);
    HIP(hipMemcpy(got.data(), words, 12, hipMemcpyDefault));
    EQUAL(got[0], 2 * rounds);
    EQUAL(got[1], rounds * (rounds - 1));
    EQUAL(got[2], rounds * rounds);
}

CASE(peers_take_turns_in_fine_grained_memory) {
    // ROCr has such memory over PCIe only when asked.
    setenv("HSA_FORCE_FINE_GRAIN_PCIE", "1", 1);
    for (int owner = 0; owner < 2; owner++) {
        on(owner);
        uint32_t* words = nullptr;
        HIP(hipExtMallocWithFlags((void**)&words, 4096, hipDeviceMallocFinegrained));
        HIP(hipMemset(words, 0, 4096));
        HIP(hipDeviceSynchronize());
        take_turns_on(words);
        HIP(hipFree(words));
    }
}

CASE(peers_take_turns_in_memory_of_the_host) {
    on(0);
    uint32_t* words = nullptr;
    HIP(hipHostMalloc((void**)&words, 4096, hipHostMallocPortable | hipHostMallocMapped | hipHostMallocCoherent));
    memset(words, 0, 4096);
    take_turns_on(words);
    HIP(hipHostFree(words));
}

CASE(peers_take_turns_in_managed_memory) {
    on(0);
    uint32_t* words = nullptr;
    HIP(hipMallocManaged((void**)&words, 4096, hipMemAttachGlobal));
    memset(words, 0, 4096);
    take_turns_on(words);
    HIP(hipFree(words));
}

CASE(peers_take_turns_in_registered_memory) {
    on(0);
    uint32_t* words = (uint32_t*)aligned_alloc(4096, 4096);
    memset(words, 0, 4096);
    HIP(hipHostRegister(words, 4096, hipHostRegisterPortable));
    uint32_t* places[2];
    for (int device = 0; device < 2; device++) {
        on(device);
        HIP(hipHostGetDevicePointer((void**)&places[device], words, 0));
    }
    CHECK(places[0] == places[1], "%p and %p", (void*)places[0], (void*)places[1]);
    take_turns_on(places[0]);
    HIP(hipHostUnregister(words));
    free(words);
}

CASE(peers_reach_memory_of_pools) {
    on(0);
    hipMemPool_t pool;
    HIP(hipDeviceGetDefaultMemPool(&pool, 0));
    hipMemLocation other = {hipMemLocationTypeDevice, 1};
    hipMemAccessFlags flags = hipMemAccessFlagsProtReadWrite;
    HIP(hipMemPoolGetAccess(&flags, pool, &other));
    EQUAL(flags, hipMemAccessFlagsProtNone);
    hipMemAccessDesc access = {other, hipMemAccessFlagsProtReadWrite};
    HIP(hipMemPoolSetAccess(pool, &access, 1));
    HIP(hipMemPoolGetAccess(&flags, pool, &other));
    EQUAL(flags, hipMemAccessFlagsProtReadWrite);
    for (int round = 0; round < 3; round++) {
        uint32_t* words = nullptr;
        on(0);
        Words want = noise(COUNT, 53 + round);
        HIP(hipMallocAsync((void**)&words, COUNT * 4, nullptr));
        HIP(hipMemcpyAsync(words, want.data(), COUNT * 4, hipMemcpyHostToDevice, nullptr));
        HIP(hipStreamSynchronize(nullptr));
        in_turns(words, want, [words] {
            Words got(COUNT);
            HIP(hipMemcpy(got.data(), words, COUNT * 4, hipMemcpyDeviceToHost));
            return got;
        });
        on(0);
        HIP(hipFreeAsync(words, nullptr));
        HIP(hipStreamSynchronize(nullptr));
    }
}

CASE(peers_map_one_allocation) {
    for (int owner = 0; owner < 2; owner++) {
        on(owner);
        int has = 0;
        HIP(hipDeviceGetAttribute(&has, hipDeviceAttributeVirtualMemoryManagementSupported, owner));
        // HIP 5.7 says that it has none of this, though its calls succeed.
        EQUAL(has, ROCM_MAJOR > 5);
        if (!has) continue;
        hipMemAllocationProp properties = {};
        properties.type = hipMemAllocationTypePinned;
        properties.location = {hipMemLocationTypeDevice, owner};
        size_t grain = 0;
        hipMemGenericAllocationHandle_t handle;
        HIP(hipMemGetAllocationGranularity(&grain, &properties, hipMemAllocationGranularityMinimum));
        size_t size = (COUNT * 4 + grain - 1) / grain * grain;
        HIP(hipMemCreate(&handle, size, &properties, 0));
        uint32_t* words = nullptr;
        HIP(hipMemAddressReserve((void**)&words, size, 0, nullptr, 0));
        HIP(hipMemMap(words, size, 0, handle, 0));
        hipMemAccessDesc access[2];
        for (int device = 0; device < 2; device++)
            access[device] = {{hipMemLocationTypeDevice, device}, hipMemAccessFlagsProtReadWrite};
        HIP(hipMemSetAccess(words, size, access, 2));
        Words want = noise(COUNT, 56);
        HIP(hipMemcpy(words, want.data(), COUNT * 4, hipMemcpyHostToDevice));
        in_turns(words, want, [words] {
            Words got(COUNT);
            HIP(hipMemcpy(got.data(), words, COUNT * 4, hipMemcpyDeviceToHost));
            return got;
        });
        HIP(hipMemUnmap(words, size));
        HIP(hipMemRelease(handle));
        HIP(hipMemAddressFree(words, size));
    }
}

__global__ void gather(uint32_t* out, const uint32_t* in, uint32_t count) {
    uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) out[at] = in[at * 7919u % count] + in[(at ^ 0x55u) % count];
}

CASE(peers_scattered_loads_and_stores) {
    for (int owner = 0; owner < 2; owner++) {
        on(owner);
        Words from = noise(COUNT, 57), want(COUNT);
        Buffer<uint32_t> there(from), result(Words(COUNT, 0));
        on(1 - owner);
        gather<<<GROUPS, 256>>>(result.data, there.data, COUNT);
        FINISHED();
        for (uint32_t at = 0; at < COUNT; at++) want[at] = from[at * 7919u % COUNT] + from[(at ^ 0x55u) % COUNT];
        SAME_AS(result.read(), want);
    }
}

template <class T>
__global__ void move_units(T* out, const T* in, uint32_t count) {
    for (uint32_t at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x) out[at] = in[count - 1 - at];
}

template <class T>
static void move_by_units() {
    const uint32_t count = 5003;
    std::vector<uint8_t> from(count * sizeof(T)), want(from.size());
    for (size_t i = 0; i < from.size(); i++) from[i] = uint8_t(i * 37 + i / 251);
    for (uint32_t at = 0; at < count; at++) memcpy(&want[at * sizeof(T)], &from[(count - 1 - at) * sizeof(T)], sizeof(T));
    on(0);
    Buffer<uint8_t> there(from);
    on(1);
    Buffer<uint8_t> here(std::vector<uint8_t>(from.size(), 0));
    move_units<<<7, 256>>>((T*)here.data, (const T*)there.data, count);
    FINISHED();
    SAME_AS(here.read(), want);
    HIP(hipMemset(there.data, 0, there.bytes()));
    HIP(hipDeviceSynchronize());
    // And back, by stores.
    move_units<<<7, 256>>>((T*)there.data, (const T*)here.data, count);
    FINISHED();
    SAME_AS(there.read(), from);
}

CASE(peers_units_of_1_to_16_bytes) {
    move_by_units<uint8_t>();
    move_by_units<uint16_t>();
    move_by_units<uint32_t>();
    move_by_units<uint64_t>();
    move_by_units<uint4>();
}

CASE(peers_memory_is_freed_while_the_other_one_is_current) {
    for (int round = 0; round < 8; round++) {
        uint32_t* words[2];
        for (int device = 0; device < 2; device++) {
            on(device);
            HIP(hipMalloc((void**)&words[device], (round + 1) << 18));
        }
        for (int device = 0; device < 2; device++) {
            on(1 - device);
            step<<<GROUPS, 256>>>(words[device], words[device], COUNT);
            FINISHED();
            HIP(hipFree(words[device]));
        }
    }
}
