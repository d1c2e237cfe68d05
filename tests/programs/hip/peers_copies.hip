// GPUS 2
// Copies between two GPUs, in all forms that the runtime has.
#include "peers.h"

#include <memory>

// A buffer on each device, both reached by both.
struct Pair {
    std::unique_ptr<Buffer<uint32_t>> one, other;

    explicit Pair(const Words& first) {
        on(1);
        other = std::make_unique<Buffer<uint32_t>>(Words(first.size(), 0));
        on(0);
        one = std::make_unique<Buffer<uint32_t>>(first);
    }
};

CASE(peers_memcpy_of_odd_lengths_and_places) {
    Words bytes = noise(4096, 21);
    Pair pair(bytes);
    const uint8_t* from = (const uint8_t*)bytes.data();
    for (size_t length : {1, 2, 3, 4, 7, 63, 64, 65, 255, 1000, 4097, 9999}) {
        for (size_t place : {0, 1, 5, 64}) {
            HIP(hipMemset(pair.other->data, 0xee, pair.other->bytes()));
            HIP(hipMemcpyPeer((uint8_t*)pair.other->data + place, 1, (uint8_t*)pair.one->data + 7, 0, length));
            Words got = pair.other->read();
            const uint8_t* to = (const uint8_t*)got.data();
            CHECK(memcmp(to + place, from + 7, length) == 0, "%zu bytes to %zu differ", length, place);
            EQUAL(to[place + length], 0xee);
            CHECK(place == 0 || to[place - 1] == 0xee, "something was written before");
        }
    }
}

CASE(peers_memcpy_to_itself) {
    for (int device = 0; device < 2; device++) {
        on(device);
        Words want = noise(COUNT, 22);
        Buffer<uint32_t> from(want), to(Words(COUNT, 0));
        // Either device may be the current one.
        HIP(hipSetDevice(1 - device));
        HIP(hipMemcpyPeer(to.data, device, from.data, device, to.bytes()));
        SAME_AS(to.read(), want);
    }
}

// Larger than the buffer by which the runtime copies where there is no way between devices (4 MiB).
CASE(peers_memcpy_of_many_mebibytes) {
    Words want = noise((24u << 20) / 4 + 5, 23);
    Pair pair(want);
    HIP(hipMemcpyPeer(pair.other->data, 1, pair.one->data, 0, pair.one->bytes()));
    SAME_AS(pair.other->read(), want);
}

CASE(peers_memcpy_of_many_mebibytes_without_access) {
    Words want = noise((9u << 20) / 4 + 3, 24);
    on(0, false);
    Buffer<uint32_t> one(want);
    on(1, false);
    Buffer<uint32_t> other(Words(want.size(), 0));
    HIP(hipMemcpyPeer(other.data, 1, one.data, 0, one.bytes()));
    SAME_AS(other.read(), want);
    HIP(hipMemset(one.data, 0, one.bytes()));
    HIP(hipMemcpy(one.data, other.data, one.bytes(), hipMemcpyDeviceToDevice));
    SAME_AS(one.read(), want);
}

CASE(peers_memcpy_is_refused_with_an_error) {
    Pair pair(noise(64, 25));
    uint32_t *one = pair.one->data, *other = pair.other->data;
    HIP_FAILS(hipMemcpyPeer(other, 2, one, 0, 16), hipErrorInvalidDevice);
    HIP_FAILS(hipMemcpyPeer(other, 1, one, -1, 16), hipErrorInvalidDevice);
    HIP_FAILS(hipMemcpyPeer(nullptr, 1, one, 0, 16), hipErrorInvalidValue);
    HIP_FAILS(hipMemcpyPeer(other, 1, nullptr, 0, 16), hipErrorInvalidValue);
    HIP(hipMemcpyPeer(other, 1, one, 0, 0));
    HIP_FAILS(hipMemcpyPeerAsync(other, 2, one, 0, 16, nullptr), hipErrorInvalidDevice);
    HIP_FAILS(hipMemcpyPeerAsync(nullptr, 1, one, 0, 16, nullptr), hipErrorInvalidValue);
    SAME_AS(pair.other->read(), Words(64, 0));
}

CASE(peers_memcpy_default_finds_the_devices) {
    Words want = noise(COUNT, 26);
    Pair pair(want);
    HIP(hipMemcpy(pair.other->data, pair.one->data, pair.one->bytes(), hipMemcpyDefault));
    SAME_AS(pair.other->read(), want);
    pair.one->clear();
    HIP(hipDeviceSynchronize());
    HIP(hipSetDevice(1));
    HIP(hipMemcpyAsync(pair.one->data, pair.other->data, pair.one->bytes(), hipMemcpyDefault, nullptr));
    HIP(hipStreamSynchronize(nullptr));
    SAME_AS(pair.one->read(), want);
}

CASE(peers_memcpy_of_the_driver_interface) {
    Words want = noise(COUNT, 27);
    Pair pair(want);
    HIP(hipMemcpyDtoD((hipDeviceptr_t)pair.other->data, (hipDeviceptr_t)pair.one->data, pair.one->bytes()));
    SAME_AS(pair.other->read(), want);
    pair.one->clear();
    HIP(hipDeviceSynchronize());
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    HIP(hipMemcpyDtoDAsync((hipDeviceptr_t)pair.one->data, (hipDeviceptr_t)pair.other->data, pair.one->bytes(), stream));
    HIP(hipStreamSynchronize(stream));
    SAME_AS(pair.one->read(), want);
    pair.other->clear();
    HIP(hipDeviceSynchronize());
    HIP(hipMemcpyWithStream(pair.other->data, pair.one->data, pair.one->bytes(), hipMemcpyDeviceToDevice, stream));
    SAME_AS(pair.other->read(), want);
    HIP(hipStreamDestroy(stream));
}

enum { WIDE = 200, PITCH = 256, ROWS = 40 };

// Says if a picture of ROWS x PITCH words has the rectangle of another one, moved, and zeros around it.
static void expect_rectangle(const Words& got, const Words& from, size_t x, size_t y, size_t width, size_t rows) {
    Words want(got.size(), 0);
    for (size_t row = 0; row < rows; row++)
        for (size_t column = 0; column < width; column++)
            want[(y + row) * PITCH + x + column] = from[row * PITCH + column];
    SAME_AS(got, want);
}

CASE(peers_memcpy_2d) {
    Words from = noise(PITCH * ROWS, 28);
    for (int asynchronous = 0; asynchronous < 2; asynchronous++) {
        Pair pair(from);
        uint32_t* to = pair.other->data + 3 * PITCH + 9;
        if (asynchronous) {
            HIP(hipMemcpy2DAsync(to, PITCH * 4, pair.one->data, PITCH * 4, WIDE * 4, 30, hipMemcpyDeviceToDevice, nullptr));
            HIP(hipStreamSynchronize(nullptr));
        } else {
            HIP(hipMemcpy2D(to, PITCH * 4, pair.one->data, PITCH * 4, WIDE * 4, 30, hipMemcpyDeviceToDevice));
            HIP(hipDeviceSynchronize());
        }
        expect_rectangle(pair.other->read(), from, 9, 3, WIDE, 30);
    }
}

CASE(peers_memcpy_2d_of_the_driver_interface) {
    Words from = noise(PITCH * ROWS, 29);
    for (int device = 0; device < 2; device++) {
        Pair pair(from);
        HIP(hipSetDevice(device));
        hip_Memcpy2D parameters = {};
        parameters.srcMemoryType = parameters.dstMemoryType = hipMemoryTypeDevice;
        parameters.srcDevice = (hipDeviceptr_t)pair.one->data;
        parameters.dstDevice = (hipDeviceptr_t)pair.other->data;
        parameters.srcPitch = parameters.dstPitch = PITCH * 4;
        parameters.dstXInBytes = 11 * 4;
        parameters.dstY = 2;
        parameters.WidthInBytes = 99 * 4;
        parameters.Height = 17;
        HIP(hipMemcpyParam2D(&parameters));
        HIP(hipDeviceSynchronize());
        expect_rectangle(pair.other->read(), from, 11, 2, 99, 17);
    }
}

CASE(peers_memcpy_3d) {
    const size_t deep = 5, high = 8, wide = 60;
    Words from = noise(deep * high * 64, 30);
    for (int asynchronous = 0; asynchronous < 2; asynchronous++) {
        Pair pair(from);
        hipMemcpy3DParms parameters = {};
        parameters.srcPtr = make_hipPitchedPtr(pair.one->data, 64 * 4, wide * 4, high);
        parameters.dstPtr = make_hipPitchedPtr(pair.other->data, 64 * 4, wide * 4, high);
        parameters.dstPos = make_hipPos(4 * 4, 1, 1);
        parameters.extent = make_hipExtent(40 * 4, 6, 3);
        parameters.kind = hipMemcpyDeviceToDevice;
        if (asynchronous) HIP(hipMemcpy3DAsync(&parameters, nullptr));
        else HIP(hipMemcpy3D(&parameters));
        HIP(hipDeviceSynchronize());
        Words want(from.size(), 0);
        for (size_t z = 0; z < 3; z++)
            for (size_t y = 0; y < 6; y++)
                for (size_t x = 0; x < 40; x++) want[((z + 1) * high + y + 1) * 64 + x + 4] = from[(z * high + y) * 64 + x];
        SAME_AS(pair.other->read(), want);
    }
}

__device__ uint32_t table[1000];

CASE(peers_variables_are_of_each_device) {
    Words values[2] = {noise(1000, 31), noise(1000, 32)};
    for (int device = 0; device < 2; device++) {
        on(device);
        HIP(hipMemcpyToSymbol(HIP_SYMBOL(table), values[device].data(), sizeof table));
    }
    uint32_t* places[2];
    for (int device = 0; device < 2; device++) {
        on(device);
        Words got(1000);
        HIP(hipMemcpyFromSymbol(got.data(), HIP_SYMBOL(table), sizeof table));
        SAME_AS(got, values[device]);
        HIP(hipGetSymbolAddress((void**)&places[device], HIP_SYMBOL(table)));
    }
    CHECK(places[0] != places[1], "one place for both");
}

CASE(peers_memset_of_the_other_one_s_memory) {
    Pair pair(noise(COUNT, 33));
    HIP(hipSetDevice(1));
    HIP(hipMemset(pair.one->data, 0x5a, pair.one->bytes()));
    HIP(hipDeviceSynchronize());
    SAME_AS(pair.one->read(), Words(COUNT, 0x5a5a5a5a));
    HIP(hipMemsetD32((hipDeviceptr_t)pair.one->data, 1234567, COUNT - 1));
    HIP(hipDeviceSynchronize());
    Words want(COUNT, 1234567);
    want[COUNT - 1] = 0x5a5a5a5a;
    SAME_AS(pair.one->read(), want);
}

CASE(peers_memcpy_by_many_streams) {
    const int streams = 6, rounds = 10;
    Words starts[streams];
    std::unique_ptr<Pair> pairs[streams];
    hipStream_t stream[streams];
    for (int i = 0; i < streams; i++) {
        starts[i] = noise(COUNT + i, 40 + i);
        pairs[i] = std::make_unique<Pair>(starts[i]);
        HIP(hipSetDevice(i % 2));
        HIP(hipStreamCreateWithFlags(&stream[i], hipStreamNonBlocking));
    }
    HIP(hipDeviceSynchronize());
    // There and back, with a step of a kernel on each way.
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < streams; i++) {
            HIP(hipSetDevice(i % 2));
            Buffer<uint32_t>&one = *pairs[i]->one, &other = *pairs[i]->other;
            HIP(hipMemcpyPeerAsync(other.data, 1, one.data, 0, one.bytes(), stream[i]));
            step_in_place(other, stream[i]);
            HIP(hipMemcpyPeerAsync(one.data, 0, other.data, 1, one.bytes(), stream[i]));
            stepped(starts[i]);
        }
    for (int i = 0; i < streams; i++) {
        HIP(hipStreamSynchronize(stream[i]));
        SAME_AS(pairs[i]->one->read(), starts[i]);
        HIP(hipStreamDestroy(stream[i]));
    }
}

// Pinned memory is of all devices, and the one that copies need not be the one that it was made for.
CASE(peers_copies_of_pinned_memory) {
    Words want = noise(COUNT, 34);
    uint32_t* pinned = nullptr;
    on(0);
    HIP(hipHostMalloc((void**)&pinned, COUNT * 4, hipHostMallocPortable));
    memcpy(pinned, want.data(), COUNT * 4);
    on(1);
    Buffer<uint32_t> words(Words(COUNT, 0));
    HIP(hipMemcpyAsync(words.data, pinned, COUNT * 4, hipMemcpyHostToDevice, nullptr));
    step_in_place(words);
    HIP(hipMemcpyAsync(pinned, words.data, COUNT * 4, hipMemcpyDeviceToHost, nullptr));
    HIP(hipStreamSynchronize(nullptr));
    stepped(want);
    SAME(pinned, want.data(), COUNT);
    on(0);
    HIP(hipHostFree(pinned));
}
