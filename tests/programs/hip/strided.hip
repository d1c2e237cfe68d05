// Copies and fills of boxes and rows, and those of the driver's interface: also what lies between the rows is compared.
#include "hip_cases.h"

using Bytes = std::vector<uint8_t>;
using Words = std::vector<uint32_t>;

static Bytes noise_bytes(size_t count, uint32_t seed) {
    Words words = noise((count + 3) / 4, seed);
    Bytes bytes(count);
    memcpy(bytes.data(), words.data(), count);
    return bytes;
}

// What a copy of a box comes to: x in bytes, with the pitches and heights of both sides.
struct Box {
    size_t x, y, z, pitch, height;
};

static void copy_box(Bytes& to, Box into, const Bytes& from, Box out_of, size_t width, size_t height, size_t depth) {
    for (size_t z = 0; z < depth; z++)
        for (size_t y = 0; y < height; y++)
            memcpy(&to[((into.z + z) * into.height + into.y + y) * into.pitch + into.x],
                   &from[((out_of.z + z) * out_of.height + out_of.y + y) * out_of.pitch + out_of.x], width);
}

CASE(memcpy_2d_host_to_host) {
    Bytes from = noise_bytes(90 * 20, 1), to = noise_bytes(120 * 20, 2), want = to;
    HIP(hipMemcpy2D(to.data() + 7, 120, from.data() + 3, 90, 77, 19, hipMemcpyHostToHost));
    copy_box(want, {7, 0, 0, 120, 20}, from, {3, 0, 0, 90, 20}, 77, 19, 1);
    SAME_AS(to, want);
}

CASE(memcpy_2d_default_direction) {
    Bytes from = noise_bytes(64 * 30, 3), to(from.size(), 0), want = to;
    Buffer<uint8_t> first(100 * 30), second(100 * 30);
    first.clear();
    HIP(hipMemcpy2D(first.data, 100, from.data(), 64, 61, 30, hipMemcpyDefault));
    HIP(hipMemcpy2D(second.data, 100, first.data, 100, 61, 30, hipMemcpyDefault));
    HIP(hipMemcpy2D(to.data(), 64, second.data, 100, 61, 30, hipMemcpyDefault));
    copy_box(want, {0, 0, 0, 64, 30}, from, {0, 0, 0, 64, 30}, 61, 30, 1);
    SAME_AS(to, want);
}

// A part of a plane, given by positions in both planes.
static hip_Memcpy2D part_of_a_plane() {
    hip_Memcpy2D part = {};
    part.srcXInBytes = 5;
    part.srcY = 2;
    part.dstXInBytes = 9;
    part.dstY = 4;
    part.WidthInBytes = 51;
    part.Height = 13;
    return part;
}

CASE(memcpy_param_2d) {
    Bytes from = noise_bytes(80 * 20, 4), to(96 * 20, 0x3d), want_device(128 * 20, 0x5c), want = to;
    Buffer<uint8_t> device(want_device);
    hip_Memcpy2D in = part_of_a_plane(), out = part_of_a_plane();
    in.srcMemoryType = hipMemoryTypeHost;
    in.srcHost = from.data();
    in.srcPitch = 80;
    in.dstMemoryType = hipMemoryTypeDevice;
    in.dstDevice = (hipDeviceptr_t)device.data;
    in.dstPitch = 128;
    HIP(hipMemcpyParam2D(&in));
    copy_box(want_device, {9, 4, 0, 128, 20}, from, {5, 2, 0, 80, 20}, 51, 13, 1);
    SAME_AS(device.read(), want_device);
    out.srcMemoryType = hipMemoryTypeDevice;
    out.srcDevice = (hipDeviceptr_t)device.data;
    out.srcPitch = 128;
    out.dstMemoryType = hipMemoryTypeHost;
    out.dstHost = to.data();
    out.dstPitch = 96;
    HIP(hipMemcpyParam2D(&out));
    copy_box(want, {9, 4, 0, 96, 20}, want_device, {5, 2, 0, 128, 20}, 51, 13, 1);
    SAME_AS(to, want);
}

CASE(memcpy_param_2d_async) {
    Bytes from = noise_bytes(128 * 20, 5), want(160 * 20, 0x71);
    Buffer<uint8_t> first(from), second(want);
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    hip_Memcpy2D copy = part_of_a_plane();
    copy.srcMemoryType = copy.dstMemoryType = hipMemoryTypeDevice;
    copy.srcDevice = (hipDeviceptr_t)first.data;
    copy.srcPitch = 128;
    copy.dstDevice = (hipDeviceptr_t)second.data;
    copy.dstPitch = 160;
    HIP(hipMemcpyParam2DAsync(&copy, stream));
    HIP(hipStreamSynchronize(stream));
    copy_box(want, {9, 4, 0, 160, 20}, from, {5, 2, 0, 128, 20}, 51, 13, 1);
    SAME_AS(second.read(), want);
    HIP(hipStreamDestroy(stream));
}

// A box from one volume of the device into another, with pitches of their own.
static void box_between_volumes(bool async) {
    const size_t pitch[2] = {96, 80}, height[2] = {12, 9}, depth = 8;
    Bytes from = noise_bytes(pitch[0] * height[0] * depth, 6), want = noise_bytes(pitch[1] * height[1] * depth, 7);
    Buffer<uint8_t> first(from), second(want);
    hipMemcpy3DParms copy = {};
    copy.srcPtr = make_hipPitchedPtr(first.data, pitch[0], pitch[0], height[0]);
    copy.srcPos = make_hipPos(11, 3, 2);
    copy.dstPtr = make_hipPitchedPtr(second.data, pitch[1], pitch[1], height[1]);
    copy.dstPos = make_hipPos(4, 1, 3);
    copy.extent = make_hipExtent(63, 7, 5);
    copy.kind = hipMemcpyDeviceToDevice;
    if (async) {
        hipStream_t stream;
        HIP(hipStreamCreate(&stream));
        HIP(hipMemcpy3DAsync(&copy, stream));
        HIP(hipStreamSynchronize(stream));
        HIP(hipStreamDestroy(stream));
    } else {
        HIP(hipMemcpy3D(&copy));
        HIP(hipDeviceSynchronize());
    }
    copy_box(want, {4, 1, 3, pitch[1], height[1]}, from, {11, 3, 2, pitch[0], height[0]}, 63, 7, 5);
    SAME_AS(second.read(), want);
    SAME_AS(first.read(), from);
}

CASE(memcpy_3d_device_to_device) { box_between_volumes(false); }
CASE(memcpy_3d_async) { box_between_volumes(true); }

CASE(memcpy_3d_of_the_driver_interface) {
    const size_t pitch = 72, height = 10, depth = 6;
    Bytes from = noise_bytes(pitch * height * depth, 8), want(from.size(), 0x19);
    Buffer<uint8_t> device(want);
    HIP_MEMCPY3D copy = {};
    copy.srcMemoryType = hipMemoryTypeHost;
    copy.srcHost = from.data();
    copy.srcPitch = copy.dstPitch = pitch;
    copy.srcHeight = copy.dstHeight = height;
    copy.srcXInBytes = 3;
    copy.srcY = 1;
    copy.srcZ = 2;
    copy.dstMemoryType = hipMemoryTypeDevice;
    copy.dstDevice = (hipDeviceptr_t)device.data;
    copy.dstXInBytes = 8;
    copy.dstY = 2;
    copy.dstZ = 1;
    copy.WidthInBytes = 45;
    copy.Height = 7;
    copy.Depth = 4;
    HIP(hipDrvMemcpy3D(&copy));
    copy_box(want, {8, 2, 1, pitch, height}, from, {3, 1, 2, pitch, height}, 45, 7, 4);
    SAME_AS(device.read(), want);
}

CASE(memcpy_of_the_driver_interface) {
    const size_t count = 70001;
    Words from = noise(count, 9), to(count);
    Buffer<uint32_t> first(count), second(count), third(count);
    auto at = [](Buffer<uint32_t>& buffer) { return (hipDeviceptr_t)buffer.data; };
    HIP(hipMemcpyHtoD(at(first), from.data(), count * 4));
    HIP(hipMemcpyDtoD(at(second), at(first), count * 4));
    HIP(hipMemcpyDtoH(to.data(), at(second), count * 4));
    SAME_AS(to, from);
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    for (uint32_t& word : from) word = ~word;
    HIP(hipMemcpyHtoDAsync(at(first), from.data(), count * 4, stream));
    HIP(hipMemcpyDtoDAsync(at(third), at(first), count * 4, stream));
    HIP(hipMemcpyDtoHAsync(to.data(), at(third), count * 4, stream));
    HIP(hipStreamSynchronize(stream));
    SAME_AS(to, from);
    HIP(hipStreamDestroy(stream));
}

// Returns only when the copy, and what was in the stream before it, is done.
CASE(memcpy_with_stream) {
    const size_t count = 50021;
    Words from = noise(count, 10), to(count);
    Buffer<uint32_t> device(count);
    hipStream_t stream;
    HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    HIP(hipMemcpyAsync(device.data, from.data(), count * 4, hipMemcpyHostToDevice, stream));
    HIP(hipMemsetD32Async((hipDeviceptr_t)(device.data + 1000), 77, 500, stream));
    HIP(hipMemcpyWithStream(to.data(), device.data, count * 4, hipMemcpyDeviceToHost, stream));
    std::fill_n(from.begin() + 1000, 500, 77);
    SAME_AS(to, from);
    HIP(hipStreamDestroy(stream));
}

// Both directions at once, each in a stream of its own.
CASE(memcpy_both_ways_at_once) {
    const size_t count = 1 << 20;
    Words up = noise(count, 11), down = noise(count, 12);
    Buffer<uint32_t> first(count), second(down);
    uint32_t *out = nullptr, *in = nullptr;
    HIP(hipHostMalloc((void**)&out, count * 4, hipHostMallocDefault));
    HIP(hipHostMalloc((void**)&in, count * 4, hipHostMallocDefault));
    memcpy(out, up.data(), count * 4);
    hipStream_t streams[2];
    for (auto& stream : streams) HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    for (size_t piece = 0; piece < 8; piece++) {
        size_t at = piece * count / 8;
        HIP(hipMemcpyAsync(first.data + at, out + at, count / 2, hipMemcpyHostToDevice, streams[0]));
        HIP(hipMemcpyAsync(in + at, second.data + at, count / 2, hipMemcpyDeviceToHost, streams[1]));
    }
    for (auto& stream : streams) HIP(hipStreamSynchronize(stream));
    SAME(in, down.data(), count);
    SAME_AS(first.read(), up);
    for (auto& stream : streams) HIP(hipStreamDestroy(stream));
    HIP(hipHostFree(out));
    HIP(hipHostFree(in));
}

__device__ uint32_t symbol_words[600];

CASE(memcpy_symbol_device_to_device) {
    Words words = noise(600, 13), got(600);
    Buffer<uint32_t> from(words), to(600);
    to.clear();
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    HIP(hipMemcpyToSymbol(HIP_SYMBOL(symbol_words), from.data, 1200, 0, hipMemcpyDeviceToDevice));
    HIP(hipDeviceSynchronize());
    HIP(hipMemcpyToSymbolAsync(HIP_SYMBOL(symbol_words), from.data + 300, 1200, 1200, hipMemcpyDeviceToDevice, stream));
    HIP(hipMemcpyFromSymbolAsync(to.data, HIP_SYMBOL(symbol_words), 2400, 0, hipMemcpyDeviceToDevice, stream));
    HIP(hipMemcpyFromSymbolAsync(got.data(), HIP_SYMBOL(symbol_words), 400, 2000, hipMemcpyDeviceToHost, stream));
    HIP(hipStreamSynchronize(stream));
    SAME_AS(to.read(), words);
    SAME(got.data(), words.data() + 500, 100);
    HIP_FAILS(hipMemcpyToSymbol(HIP_SYMBOL(symbol_words), words.data(), 2400, 4, hipMemcpyHostToDevice),
              hipErrorInvalidValue);
    HIP(hipStreamDestroy(stream));
}

// Every small number of bytes, halves and words at every place of a word; the neighbours stay.
CASE(memset_small_and_unaligned) {
    Bytes want = noise_bytes(16384, 14);
    Buffer<uint8_t> device(want);
    size_t at = 1;
    for (size_t n = 1; n < 40; n++) {
        HIP(hipMemsetD8((hipDeviceptr_t)(device.data + at), (unsigned char)(n * 37), n));
        memset(&want[at], int(n * 37 & 255), n);
        at += n + 1;
    }
    at = (at + 1) & ~size_t(1);
    for (size_t n = 1; n < 40; n++) {
        uint16_t value = uint16_t(n * 2654435);
        HIP(hipMemsetD16((hipDeviceptr_t)(device.data + at), value, n));
        for (size_t i = 0; i < n; i++) memcpy(&want[at + 2 * i], &value, 2);
        at += 2 * n + 2;
    }
    at = (at + 3) & ~size_t(3);
    for (size_t n = 1; n < 40; n++) {
        uint32_t value = uint32_t(n * 2654435761u);
        HIP(hipMemsetD32((hipDeviceptr_t)(device.data + at), int(value), n));
        for (size_t i = 0; i < n; i++) memcpy(&want[at + 4 * i], &value, 4);
        at += 4 * n + 4;
    }
    SAME_AS(device.read(), want);
}

CASE(memset_2d_async) {
    const size_t pitch = 200, width = 133, height = 30;
    Bytes want = noise_bytes(pitch * height, 15);
    Buffer<uint8_t> device(want);
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    HIP(hipMemset2DAsync(device.data + 5, pitch, 0xe1, width, height, stream));
    HIP(hipMemset2DAsync(device.data + 40, pitch, 0x2f, 50, 11, stream)); // over the first one
    HIP(hipStreamSynchronize(stream));
    for (size_t row = 0; row < height; row++) memset(&want[row * pitch + 5], 0xe1, width);
    for (size_t row = 0; row < 11; row++) memset(&want[row * pitch + 40], 0x2f, 50);
    SAME_AS(device.read(), want);
    HIP(hipStreamDestroy(stream));
}

CASE(memset_3d_async) {
    const size_t pitch = 64, height = 7, depth = 5;
    Bytes want = noise_bytes(pitch * height * depth, 16);
    Buffer<uint8_t> device(want);
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    hipPitchedPtr volume = make_hipPitchedPtr(device.data, pitch, pitch, height);
    HIP(hipMemset3DAsync(volume, 0x83, make_hipExtent(37, 4, 3), stream));
    HIP(hipStreamSynchronize(stream));
    for (size_t z = 0; z < 3; z++)
        for (size_t y = 0; y < 4; y++) memset(&want[(z * height + y) * pitch], 0x83, 37);
    SAME_AS(device.read(), want);
    HIP(hipStreamDestroy(stream));
}
