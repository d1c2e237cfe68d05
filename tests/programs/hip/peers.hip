// GPUS 2
// Two GPUs of one program: each reaches the memory of the other one.
#include "peers.h"

CASE(peers_access_is_enabled_once) {
    int count = 0;
    HIP(hipGetDeviceCount(&count));
    CHECK(count >= 2, "%d GPUs", count);
    for (int device = 0; device < count; device++) {
        HIP(hipSetDevice(device));
        for (int peer = 0; peer < count; peer++) {
            int reaches = -1;
            HIP(hipDeviceCanAccessPeer(&reaches, device, peer));
            EQUAL(reaches, int(peer != device));
            if (peer == device) continue;
            HIP_FAILS(hipDeviceDisablePeerAccess(peer), hipErrorPeerAccessNotEnabled);
            HIP(hipDeviceEnablePeerAccess(peer, 0));
            HIP_FAILS(hipDeviceEnablePeerAccess(peer, 0), hipErrorPeerAccessAlreadyEnabled);
            HIP(hipDeviceDisablePeerAccess(peer));
        }
    }
    HIP_FAILS(hipDeviceEnablePeerAccess(count, 0), hipErrorInvalidDevice);
}

CASE(peers_are_devices_of_their_own) {
    char name[2][64];
    for (int device = 0; device < 2; device++) {
        HIP(hipSetDevice(device));
        HIP(hipDeviceGetPCIBusId(name[device], sizeof name[device], device));
        int found = -1;
        HIP(hipDeviceGetByPCIBusId(&found, name[device]));
        EQUAL(found, device);
        Buffer<uint32_t> own(Words(4, 1));
        hipPointerAttribute_t attributes;
        HIP(hipPointerGetAttributes(&attributes, own.data));
        EQUAL(attributes.device, device);
    }
    CHECK(strcmp(name[0], name[1]) != 0, "%s twice", name[0]);
}

CASE(peers_memcpy) {
    for (int from = 0; from < 2; from++) {
        for (size_t count : {size_t(1), size_t(63), COUNT, size_t(1) << 20}) {
            Words want = noise(count, uint32_t(count + from));
            on(from);
            Buffer<uint32_t> there(want);
            on(1 - from);
            Buffer<uint32_t> here(Words(count, 0));
            HIP(hipMemcpyPeer(here.data, 1 - from, there.data, from, here.bytes()));
            SAME_AS(here.read(), want);
            // The runtime finds the devices by the pointers as well.
            here.clear();
            HIP(hipMemcpy(here.data, there.data, here.bytes(), hipMemcpyDeviceToDevice));
            SAME_AS(here.read(), want);
        }
    }
}

CASE(peers_memcpy_async) {
    Words want = noise(COUNT, 3);
    on(0);
    Buffer<uint32_t> first(want);
    hipStream_t streams[2];
    HIP(hipStreamCreate(&streams[0]));
    on(1);
    Buffer<uint32_t> second(Words(COUNT, 0));
    HIP(hipStreamCreate(&streams[1]));
    // There by a stream of the one, and back by a stream of the other.
    HIP(hipMemcpyPeerAsync(second.data, 1, first.data, 0, second.bytes(), streams[0]));
    HIP(hipStreamSynchronize(streams[0]));
    HIP(hipMemsetAsync(first.data, 0xff, first.bytes(), streams[1]));
    HIP(hipMemcpyPeerAsync(first.data, 0, second.data, 1, first.bytes(), streams[1]));
    HIP(hipStreamSynchronize(streams[1]));
    SAME_AS(first.read(), want);
    for (hipStream_t stream : streams) HIP(hipStreamDestroy(stream));
}

// Copies without access to each other go by way of the runtime.
CASE(peers_memcpy_without_access) {
    Words want = noise(COUNT, 4);
    on(0, false);
    Buffer<uint32_t> first(want);
    on(1, false);
    Buffer<uint32_t> second(Words(COUNT, 0));
    HIP(hipMemcpyPeer(second.data, 1, first.data, 0, second.bytes()));
    SAME_AS(second.read(), want);
}

CASE(peers_kernels_read_and_write) {
    for (int device = 0; device < 2; device++) {
        on(1 - device);
        Words start = noise(COUNT, 5), want = start;
        Buffer<uint32_t> there(start), result(Words(COUNT, 0));
        on(device);
        Buffer<uint32_t> here(Words(COUNT, 0));
        unsigned blocks = (COUNT + 255) / 256;
        // It reads the other one's memory, and then writes there.
        step<<<blocks, 256>>>(here.data, there.data, COUNT);
        step<<<blocks, 256>>>(result.data, here.data, COUNT);
        FINISHED();
        for (uint32_t& word : want) word = word * 5 + 1;
        SAME_AS(here.read(), want);
        for (uint32_t& word : want) word = word * 5 + 1;
        on(1 - device);
        SAME_AS(result.read(), want);
    }
}

__global__ void count_up(uint32_t* sum, uint64_t* most, uint32_t device) {
    __hip_atomic_fetch_add(sum, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    uint64_t mine = (blockIdx.x * uint64_t(blockDim.x) + threadIdx.x) * 2 + device;
    __hip_atomic_fetch_max(most, mine, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

CASE(peers_atomics_on_one_word) {
    on(0);
    Buffer<uint32_t> sum(Words(1, 0));
    Buffer<uint64_t> most(std::vector<uint64_t>(1, 0));
    for (int round = 0; round < 8; round++) {
        for (uint32_t device = 0; device < 2; device++) {
            on(int(device));
            count_up<<<16, 128>>>(sum.data, most.data, device);
            LAUNCHED();
        }
    }
    for (int device = 0; device < 2; device++) {
        on(device);
        HIP(hipDeviceSynchronize());
    }
    SAME_AS(sum.read(), Words(1, 8 * 2 * 16 * 128));
    SAME_AS(most.read(), std::vector<uint64_t>(1, (16 * 128 - 1) * 2 + 1));
}

CASE(peers_stream_waits_for_the_other_one_s_event) {
    Words start = noise(COUNT, 6), want = start;
    unsigned blocks = (COUNT + 255) / 256;
    hipStream_t streams[2];
    hipEvent_t events[2];
    for (int device = 0; device < 2; device++) {
        on(device);
        HIP(hipStreamCreate(&streams[device]));
        HIP(hipEventCreateWithFlags(&events[device], hipEventDisableTiming));
    }
    on(0);
    Buffer<uint32_t> words(start);
    // In turns, each after the other one's step.
    for (int turn = 0; turn < 10; turn++) {
        int device = turn % 2;
        on(device);
        if (turn > 0) HIP(hipStreamWaitEvent(streams[device], events[1 - device], 0));
        step<<<blocks, 256, 0, streams[device]>>>(words.data, words.data, COUNT);
        LAUNCHED();
        HIP(hipEventRecord(events[device], streams[device]));
        for (uint32_t& word : want) word = word * 5 + 1;
    }
    HIP(hipEventSynchronize(events[1]));
    SAME_AS(words.read(), want);
    for (int device = 0; device < 2; device++) {
        on(device);
        HIP(hipStreamDestroy(streams[device]));
        HIP(hipEventDestroy(events[device]));
    }
}

__global__ void answer(uint32_t* own, uint32_t* other, uint32_t first, uint32_t rounds) {
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t wanted = 2 * round + first;
        while (__hip_atomic_load(own, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM) != wanted) {}
        __hip_atomic_store(own, wanted + 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
        __hip_atomic_store(other, wanted + 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
    }
}

// Kernels of both run at the same time, and each waits for a store of the other one to its memory.
CASE(peers_kernels_answer_each_other) {
    const uint32_t rounds = 50;
    uint32_t* words[2];
    for (int device = 0; device < 2; device++) {
        on(device);
        HIP(hipExtMallocWithFlags((void**)&words[device], 4, hipDeviceMallocUncached));
        HIP(hipMemset(words[device], 0, 4));
        HIP(hipDeviceSynchronize());
    }
    for (uint32_t device = 0; device < 2; device++) {
        on(int(device));
        answer<<<1, 1>>>(words[device], words[1 - device], device, rounds);
        LAUNCHED();
    }
    for (int device = 0; device < 2; device++) {
        on(device);
        HIP(hipDeviceSynchronize());
    }
    for (int device = 0; device < 2; device++) {
        on(device);
        // The other one's last store is here only after its kernel's end.
        uint32_t last = 0;
        HIP(hipMemcpy(&last, words[device], 4, hipMemcpyDeviceToHost));
        EQUAL(last, 2 * rounds);
        HIP(hipFree(words[device]));
    }
}

// A child opens memory of the parent's first GPU on its own second one.
CASE(peers_memory_of_another_process) {
    int to_child[2], to_parent[2];
    CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0, "pipe");
    pid_t child = fork();
    if (child == 0) {
        hipIpcMemHandle_t handle;
        uint32_t* words = nullptr;
        if (read(to_child[0], &handle, sizeof handle) != sizeof handle) _exit(1);
        HIP(hipSetDevice(1));
        HIP(hipIpcOpenMemHandle((void**)&words, handle, hipIpcMemLazyEnablePeerAccess));
        step<<<(COUNT + 255) / 256, 256>>>(words, words, COUNT);
        FINISHED();
        HIP(hipIpcCloseMemHandle(words));
        _exit(write(to_parent[1], "d", 1) == 1 ? 0 : 1);
    }
    close(to_parent[1]);
    on(0, false);
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
