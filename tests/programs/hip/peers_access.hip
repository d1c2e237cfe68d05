// GPUS 2
// Two GPUs of one program: which of them reaches which, by the runtime's word and by kernels.
#include "peers.h"

#include <thread>

// Links are those of `belfry exec` where no option names others: XGMI on MI300X, PCIe elsewhere.
static const bool HAS_XGMI = GPU_MAJOR == 9;

CASE(peers_link_has_a_type_and_hops) {
    for (int device = 0; device < 2; device++) {
        uint32_t type = 0, hops = 0;
        HIP(hipExtGetLinkTypeAndHopCount(device, 1 - device, &type, &hops));
        // HSA_AMD_LINK_INFO_TYPE_XGMI and _PCIE.
        EQUAL(type, HAS_XGMI ? 4 : 2);
        EQUAL(hops, HAS_XGMI ? 1 : 2);
        HIP_FAILS(hipExtGetLinkTypeAndHopCount(device, 2, &type, &hops), hipErrorInvalidDevice);
        HIP_FAILS(hipExtGetLinkTypeAndHopCount(device, 1 - device, nullptr, &hops), hipErrorInvalidValue);
    }
}

CASE(peers_attributes_say_that_they_reach_each_other) {
    for (int device = 0; device < 2; device++) {
        int access = 0, atomics = 0;
        HIP(hipDeviceGetP2PAttribute(&access, hipDevP2PAttrAccessSupported, device, 1 - device));
        EQUAL(access, 1);
        HIP(hipDeviceGetP2PAttribute(&atomics, hipDevP2PAttrNativeAtomicSupported, device, 1 - device));
        EQUAL(atomics, 1);
    }
    int value = 0;
    HIP_FAILS(hipDeviceGetP2PAttribute(nullptr, hipDevP2PAttrAccessSupported, 0, 1), hipErrorInvalidValue);
    HIP_FAILS(hipDeviceGetP2PAttribute(&value, hipDevP2PAttrAccessSupported, 0, 2), hipErrorInvalidDevice);
    HIP_FAILS(hipDeviceGetP2PAttribute(&value, hipDevP2PAttrAccessSupported, 0, 0), hipErrorInvalidDevice);
    HIP_FAILS(hipDeviceGetP2PAttribute(&value, hipDeviceP2PAttr(99), 0, 1), hipErrorInvalidValue);
}

CASE(peers_access_is_refused_with_an_error) {
    int value = 0;
    HIP_FAILS(hipDeviceCanAccessPeer(nullptr, 0, 1), hipErrorInvalidValue);
    HIP_FAILS(hipDeviceCanAccessPeer(&value, 0, 2), hipErrorInvalidDevice);
    HIP_FAILS(hipDeviceCanAccessPeer(&value, -1, 0), hipErrorInvalidDevice);
    HIP(hipSetDevice(0));
    HIP_FAILS(hipDeviceEnablePeerAccess(1, 1), hipErrorInvalidValue);
    HIP_FAILS(hipDeviceEnablePeerAccess(2, 0), hipErrorInvalidDevice);
    HIP_FAILS(hipDeviceEnablePeerAccess(-1, 0), hipErrorInvalidDevice);
    HIP_FAILS(hipDeviceDisablePeerAccess(2), hipErrorInvalidDevice);
    HIP_FAILS(hipSetDevice(2), hipErrorInvalidDevice);
    HIP_FAILS(hipSetDevice(-1), hipErrorInvalidDevice);
}

CASE(peers_access_is_of_one_direction) {
    HIP(hipSetDevice(0));
    HIP(hipDeviceEnablePeerAccess(1, 0));
    HIP(hipSetDevice(1));
    HIP_FAILS(hipDeviceDisablePeerAccess(0), hipErrorPeerAccessNotEnabled);
    HIP(hipDeviceEnablePeerAccess(0, 0));
    HIP(hipSetDevice(0));
    HIP(hipDeviceDisablePeerAccess(1));
    HIP(hipSetDevice(1));
    HIP_FAILS(hipDeviceEnablePeerAccess(0, 0), hipErrorPeerAccessAlreadyEnabled);
    HIP(hipDeviceDisablePeerAccess(0));
}

// Access is of the process: a thread finds it as another one left it.
CASE(peers_access_is_of_all_threads) {
    on(0);
    std::thread([] {
        int current = -1;
        HIP(hipGetDevice(&current));
        EQUAL(current, 0);
        HIP_FAILS(hipDeviceEnablePeerAccess(1, 0), hipErrorPeerAccessAlreadyEnabled);
        HIP(hipSetDevice(1));
    }).join();
    int current = -1;
    HIP(hipGetDevice(&current));
    EQUAL(current, 0);
}

CASE(peers_memory_from_before_and_after_access) {
    on(0, false);
    Words want = noise(COUNT, 11);
    Buffer<uint32_t> before(want);
    on(1);
    on(0);
    Buffer<uint32_t> after(want);
    HIP(hipSetDevice(1));
    for (int round = 0; round < 3; round++) {
        step_in_place(before);
        step_in_place(after);
        stepped(want);
    }
    HIP(hipDeviceSynchronize());
    SAME_AS(before.read(), want);
    SAME_AS(after.read(), want);
}

CASE(peers_access_can_end_and_begin_again) {
    on(0);
    Words want = noise(COUNT, 12);
    Buffer<uint32_t> words(want);
    for (int round = 0; round < 5; round++) {
        on(1);
        step_in_place(words);
        stepped(want);
        HIP(hipDeviceSynchronize());
        HIP(hipDeviceDisablePeerAccess(0));
        // Its owner reaches it all the while.
        HIP(hipSetDevice(0));
        step_in_place(words);
        stepped(want);
        HIP(hipDeviceSynchronize());
    }
    SAME_AS(words.read(), want);
}

CASE(peers_have_memory_of_their_own) {
    size_t free[2][2], total[2];
    for (int device = 0; device < 2; device++) {
        HIP(hipSetDevice(device));
        HIP(hipMemGetInfo(&free[0][device], &total[device]));
    }
    EQUAL(total[0], total[1]);
    const size_t size = 64u << 20;
    void* memory = nullptr;
    HIP(hipSetDevice(0));
    HIP(hipMalloc(&memory, size));
    for (int device = 0; device < 2; device++) {
        HIP(hipSetDevice(device));
        HIP(hipMemGetInfo(&free[1][device], &total[device]));
    }
    CHECK(free[0][0] - free[1][0] >= size, "%zu bytes are missing", free[0][0] - free[1][0]);
    CHECK(free[0][1] - free[1][1] < size / 2, "%zu bytes of the other one are missing", free[0][1] - free[1][1]);
    // It is given back while the other device is the current one.
    HIP(hipFree(memory));
}

CASE(peers_reset_leaves_the_other_one) {
    HIP(hipSetDevice(0));
    Words want = noise(COUNT, 13);
    Buffer<uint32_t> kept(want);
    for (int round = 0; round < 3; round++) {
        HIP(hipSetDevice(1));
        uint32_t* gone = nullptr;
        HIP(hipMalloc((void**)&gone, COUNT * 4));
        HIP(hipMemset(gone, 0, COUNT * 4));
        HIP(hipDeviceReset());
        HIP(hipSetDevice(0));
        step_in_place(kept);
        stepped(want);
        HIP(hipDeviceSynchronize());
        SAME_AS(kept.read(), want);
    }
}

CASE(peers_are_equal_cards_in_different_slots) {
    hipDeviceProp_t one, other;
    HIP(hipGetDeviceProperties(&one, 0));
    HIP(hipGetDeviceProperties(&other, 1));
    CHECK(strcmp(one.name, other.name) == 0, "%s and %s", one.name, other.name);
    CHECK(strcmp(one.gcnArchName, other.gcnArchName) == 0, "%s and %s", one.gcnArchName, other.gcnArchName);
    EQUAL(one.totalGlobalMem, other.totalGlobalMem);
    EQUAL(one.multiProcessorCount, other.multiProcessorCount);
    CHECK(one.pciBusID != other.pciBusID || one.pciDeviceID != other.pciDeviceID, "both at %d:%d", one.pciBusID,
          one.pciDeviceID);
    hipUUID ids[2];
    for (int device = 0; device < 2; device++) HIP(hipDeviceGetUuid(&ids[device], device));
    CHECK(memcmp(&ids[0], &ids[1], sizeof ids[0]) != 0, "one id for both");
}

CASE(peers_pointers_name_their_devices) {
    for (int device = 0; device < 2; device++) {
        on(device);
        Buffer<uint32_t> words(COUNT);
        // The current device is no part of the answer.
        HIP(hipSetDevice(1 - device));
        hipPointerAttribute_t attributes;
        HIP(hipPointerGetAttributes(&attributes, words.data + COUNT / 2));
        EQUAL(attributes.device, device);
        CHECK(attributes.devicePointer == words.data + COUNT / 2, "%p", attributes.devicePointer);
        int ordinal = -1;
        HIP(hipPointerGetAttribute(&ordinal, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, words.data));
        EQUAL(ordinal, device);
    }
}
