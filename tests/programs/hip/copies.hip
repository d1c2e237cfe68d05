// Copies and fills of every kind: what arrives is compared byte for byte.
#include "hip_cases.h"

using Words = std::vector<uint32_t>;
using Bytes = std::vector<uint8_t>;

static const size_t WORDS = 300007; // not a multiple of a page or of a copy kernel's step

static Bytes noise_bytes(size_t count, uint32_t seed) {
    Words words = noise((count + 3) / 4, seed);
    Bytes bytes(count);
    memcpy(bytes.data(), words.data(), count);
    return bytes;
}

// Pinned memory of `count` words.
struct Pinned {
    uint32_t* data = nullptr;
    explicit Pinned(size_t count) { HIP(hipHostMalloc((void**)&data, count * 4, hipHostMallocDefault)); }
    Pinned(const Pinned&) = delete;
    ~Pinned() { HIP(hipHostFree(data)); }
};

__global__ void add_to_each(uint32_t* words, size_t count, uint32_t value) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) words[i] += value;
}

CASE(memcpy_pageable) {
    Words from = noise(WORDS), to(WORDS);
    Buffer<uint32_t> device(WORDS);
    HIP(hipMemcpy(device.data, from.data(), WORDS * 4, hipMemcpyHostToDevice));
    HIP(hipMemcpy(to.data(), device.data, WORDS * 4, hipMemcpyDeviceToHost));
    SAME_AS(to, from);
}

CASE(memcpy_pageable_large) {
    const size_t count = (40 << 20) / 4 + 3;
    Words from = noise(count, 5), to(count);
    Buffer<uint32_t> device(from);
    HIP(hipMemcpy(to.data(), device.data, count * 4, hipMemcpyDeviceToHost));
    SAME_AS(to, from);
}

CASE(memcpy_pinned) {
    Words from = noise(WORDS, 2);
    Pinned out(WORDS), in(WORDS);
    memcpy(out.data, from.data(), WORDS * 4);
    Buffer<uint32_t> device(WORDS);
    HIP(hipMemcpy(device.data, out.data, WORDS * 4, hipMemcpyHostToDevice));
    HIP(hipMemcpy(in.data, device.data, WORDS * 4, hipMemcpyDeviceToHost));
    SAME(in.data, from.data(), WORDS);
}

CASE(memcpy_device_to_device) {
    Words from = noise(WORDS, 3);
    Buffer<uint32_t> first(from), second(WORDS);
    HIP(hipMemcpy(second.data, first.data, WORDS * 4, hipMemcpyDeviceToDevice));
    HIP(hipDeviceSynchronize());
    SAME_AS(second.read(), from);
    SAME_AS(first.read(), from);
}

CASE(memcpy_host_to_host) {
    Words from = noise(WORDS, 4), to(WORDS);
    HIP(hipMemcpy(to.data(), from.data(), WORDS * 4, hipMemcpyHostToHost));
    SAME_AS(to, from);
    Pinned pinned(WORDS);
    HIP(hipMemcpy(pinned.data, from.data(), WORDS * 4, hipMemcpyHostToHost));
    SAME(pinned.data, from.data(), WORDS);
}

CASE(memcpy_default_finds_the_direction) {
    Words from = noise(WORDS, 5), to(WORDS);
    Buffer<uint32_t> first(WORDS), second(WORDS);
    HIP(hipMemcpy(first.data, from.data(), WORDS * 4, hipMemcpyDefault));
    HIP(hipMemcpy(second.data, first.data, WORDS * 4, hipMemcpyDefault));
    HIP(hipMemcpy(to.data(), second.data, WORDS * 4, hipMemcpyDefault));
    SAME_AS(to, from);
}

CASE(memcpy_async_is_ordered_with_kernels) {
    Words want = noise(WORDS, 6);
    Pinned out(WORDS), in(WORDS);
    memcpy(out.data, want.data(), WORDS * 4);
    Buffer<uint32_t> device(WORDS);
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    HIP(hipMemcpyAsync(device.data, out.data, WORDS * 4, hipMemcpyHostToDevice, stream));
    add_to_each<<<64, 256, 0, stream>>>(device.data, WORDS, 0x01010101);
    LAUNCHED();
    HIP(hipMemcpyAsync(in.data, device.data, WORDS * 4, hipMemcpyDeviceToHost, stream));
    HIP(hipStreamSynchronize(stream));
    for (uint32_t& word : want) word += 0x01010101;
    SAME(in.data, want.data(), WORDS);
    HIP(hipStreamDestroy(stream));
}

CASE(memcpy_async_pageable) {
    Words want = noise(WORDS, 7), to(WORDS);
    Buffer<uint32_t> device(WORDS);
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    HIP(hipMemcpyAsync(device.data, want.data(), WORDS * 4, hipMemcpyHostToDevice, stream));
    HIP(hipMemcpyAsync(to.data(), device.data, WORDS * 4, hipMemcpyDeviceToHost, stream));
    HIP(hipStreamSynchronize(stream));
    SAME_AS(to, want);
    HIP(hipStreamDestroy(stream));
}

// Every small size at odd places; the bytes around must stay.
CASE(memcpy_odd_sizes_and_offsets) {
    const size_t size = 4096;
    Bytes from = noise_bytes(size, 8), want = noise_bytes(size, 9);
    Buffer<uint8_t> device(want);
    Buffer<uint8_t> other(size);
    for (size_t n : {1, 2, 3, 5, 7, 13, 31, 33, 63, 65, 127, 255}) {
        size_t source = n * 3 % 17, target = n * 13 + 1;
        memcpy(&want[target], &from[source], n);
        HIP(hipMemcpy(device.data + target, from.data() + source, n, hipMemcpyHostToDevice));
    }
    SAME_AS(device.read(), want);
    Bytes back(size, 0xee), want_back(size, 0xee), want_other(size, 0x55);
    HIP(hipMemset(other.data, 0x55, size));
    for (size_t n : {1, 2, 3, 5, 7, 13, 31, 33, 63, 65, 127, 255}) {
        size_t source = n * 5 + 3, target = n * 13 + 7;
        memcpy(&want_back[target], &want[source], n);
        HIP(hipMemcpy(back.data() + target, device.data + source, n, hipMemcpyDeviceToHost));
        memcpy(&want_other[target], &want[source], n);
        HIP(hipMemcpy(other.data + target, device.data + source, n, hipMemcpyDeviceToDevice));
    }
    SAME_AS(back, want_back);
    SAME_AS(other.read(), want_other);
}

CASE(memcpy_2d) {
    const size_t width = 301, height = 97, host_pitch = 331;
    size_t pitch = 0;
    uint8_t* device = nullptr;
    HIP(hipMallocPitch((void**)&device, &pitch, width, height));
    CHECK(pitch >= width, "pitch %zu", pitch);
    HIP(hipMemset(device, 0x77, pitch * height));
    Bytes from = noise_bytes(host_pitch * height, 10), to(host_pitch * height, 0xaa), want = to;
    HIP(hipMemcpy2D(device, pitch, from.data(), host_pitch, width, height, hipMemcpyHostToDevice));
    Buffer<uint8_t> second(host_pitch * height);
    HIP(hipMemset(second.data, 0xaa, second.bytes()));
    HIP(hipMemcpy2D(second.data, host_pitch, device, pitch, width, height, hipMemcpyDeviceToDevice));
    HIP(hipMemcpy2D(to.data(), host_pitch, device, pitch, width, height, hipMemcpyDeviceToHost));
    for (size_t row = 0; row < height; row++) memcpy(&want[row * host_pitch], &from[row * host_pitch], width);
    SAME_AS(to, want);
    SAME_AS(second.read(), want);
    // The bytes between the rows are nobody's.
    Bytes raw(pitch * height);
    HIP(hipMemcpy(raw.data(), device, raw.size(), hipMemcpyDeviceToHost));
    for (size_t row = 0; row < height; row++)
        for (size_t at = width; at < pitch; at++) EQUAL(raw[row * pitch + at], 0x77);
    HIP(hipFree(device));
}

CASE(memcpy_2d_async) {
    const size_t width = 256, height = 64, pitch = 320;
    Bytes from = noise_bytes(width * height, 11), to(width * height);
    Buffer<uint8_t> device(pitch * height);
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    HIP(hipMemcpy2DAsync(device.data, pitch, from.data(), width, width, height, hipMemcpyHostToDevice, stream));
    HIP(hipMemcpy2DAsync(to.data(), width, device.data, pitch, width, height, hipMemcpyDeviceToHost, stream));
    HIP(hipStreamSynchronize(stream));
    SAME_AS(to, from);
    HIP(hipStreamDestroy(stream));
}

CASE(memcpy_3d) {
    const size_t width = 70, height = 11, depth = 9, part_width = 33, part_height = 5, part_depth = 4;
    hipPitchedPtr device;
    HIP(hipMalloc3D(&device, make_hipExtent(width, height, depth)));
    Bytes from = noise_bytes(width * height * depth, 12), to(from.size(), 0xcc);
    hipMemcpy3DParms whole = {};
    whole.srcPtr = make_hipPitchedPtr(from.data(), width, width, height);
    whole.dstPtr = device;
    whole.extent = make_hipExtent(width, height, depth);
    whole.kind = hipMemcpyHostToDevice;
    HIP(hipMemcpy3D(&whole));
    // A box out of the middle goes to another place of the result.
    hipMemcpy3DParms part = {};
    part.srcPtr = device;
    part.srcPos = make_hipPos(7, 2, 3);
    part.dstPtr = make_hipPitchedPtr(to.data(), width, width, height);
    part.dstPos = make_hipPos(20, 4, 1);
    part.extent = make_hipExtent(part_width, part_height, part_depth);
    part.kind = hipMemcpyDeviceToHost;
    HIP(hipMemcpy3D(&part));
    Bytes want(from.size(), 0xcc);
    for (size_t z = 0; z < part_depth; z++)
        for (size_t y = 0; y < part_height; y++)
            memcpy(&want[((z + 1) * height + y + 4) * width + 20], &from[((z + 3) * height + y + 2) * width + 7],
                   part_width);
    SAME_AS(to, want);
    HIP(hipFree(device.ptr));
}

CASE(memcpy_peer_to_self) {
    Words from = noise(WORDS, 13);
    Buffer<uint32_t> first(from), second(WORDS), third(WORDS);
    HIP(hipMemcpyPeer(second.data, 0, first.data, 0, WORDS * 4));
    HIP(hipMemcpyPeerAsync(third.data, 0, second.data, 0, WORDS * 4, nullptr));
    HIP(hipDeviceSynchronize());
    SAME_AS(third.read(), from);
    int can = -1;
    HIP(hipDeviceCanAccessPeer(&can, 0, 0));
    EQUAL(can, 0);
}

CASE(memset_8) {
    Bytes want = noise_bytes(10007, 14);
    Buffer<uint8_t> device(want);
    HIP(hipMemset(device.data + 13, 0xa5, 9001));
    memset(&want[13], 0xa5, 9001);
    SAME_AS(device.read(), want);
    HIP(hipMemsetD8((hipDeviceptr_t)(device.data + 1), 0x3c, 7));
    memset(&want[1], 0x3c, 7);
    SAME_AS(device.read(), want);
}

CASE(memset_16) {
    std::vector<uint16_t> want(9001, 0x1111);
    Buffer<uint16_t> device(want);
    HIP(hipMemsetD16((hipDeviceptr_t)(device.data + 3), 0xbeef, 8191));
    std::fill(want.begin() + 3, want.begin() + 3 + 8191, 0xbeef);
    SAME_AS(device.read(), want);
}

CASE(memset_32) {
    Words want(70001, 0x22222222);
    Buffer<uint32_t> device(want);
    HIP(hipMemsetD32((hipDeviceptr_t)(device.data + 5), 0x89abcdef, 65537));
    std::fill(want.begin() + 5, want.begin() + 5 + 65537, 0x89abcdef);
    SAME_AS(device.read(), want);
}

CASE(memset_async) {
    Words want(WORDS, 0x5a5a5a5a);
    Buffer<uint32_t> device(WORDS);
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    HIP(hipMemsetAsync(device.data, 0x5a, WORDS * 4, stream));
    HIP(hipMemsetD32Async((hipDeviceptr_t)(device.data + 100), 7, 1000, stream));
    HIP(hipMemsetD16Async((hipDeviceptr_t)(device.data + 5000), 0x1234, 2000, stream));
    HIP(hipMemsetD8Async((hipDeviceptr_t)(device.data + 9000), 0xff, 400, stream));
    add_to_each<<<32, 256, 0, stream>>>(device.data, WORDS, 1);
    LAUNCHED();
    HIP(hipStreamSynchronize(stream));
    std::fill_n(want.begin() + 100, 1000, 7);
    std::fill_n(want.begin() + 5000, 1000, 0x12341234);
    std::fill_n(want.begin() + 9000, 100, 0xffffffff);
    for (uint32_t& word : want) word += 1;
    SAME_AS(device.read(), want);
    HIP(hipStreamDestroy(stream));
}

CASE(memset_2d) {
    const size_t pitch = 512, width = 300, height = 40;
    Bytes want(pitch * height, 0x10);
    Buffer<uint8_t> device(want);
    HIP(hipMemset2D(device.data + 8, pitch, 0xd2, width, height - 1));
    for (size_t row = 0; row + 1 < height; row++) memset(&want[row * pitch + 8], 0xd2, width);
    SAME_AS(device.read(), want);
}

CASE(memset_3d) {
    const size_t width = 50, height = 6, depth = 5;
    hipPitchedPtr device;
    HIP(hipMalloc3D(&device, make_hipExtent(width, height, depth)));
    Bytes want(device.pitch * height * depth, 0x21), got(want.size());
    HIP(hipMemset(device.ptr, 0x21, want.size()));
    HIP(hipMemset3D(device, 0x9e, make_hipExtent(width, height, depth)));
    for (size_t row = 0; row < height * depth; row++) memset(&want[row * device.pitch], 0x9e, width);
    HIP(hipMemcpy(got.data(), device.ptr, got.size(), hipMemcpyDeviceToHost));
    SAME_AS(got, want);
    HIP(hipFree(device.ptr));
}

__device__ uint32_t device_words[1024];
__constant__ uint32_t constant_words[256];

__global__ void combine_symbols(uint32_t* out) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = device_words[i] ^ constant_words[i % 256];
    device_words[i] = i * 3;
}

CASE(memcpy_symbol) {
    Words words = noise(1024, 15), constants = noise(256, 16), got(1024), want(1024);
    HIP(hipMemcpyToSymbol(HIP_SYMBOL(device_words), words.data(), 4096, 0, hipMemcpyHostToDevice));
    HIP(hipMemcpyToSymbol(HIP_SYMBOL(constant_words), constants.data(), 512, 0, hipMemcpyHostToDevice));
    HIP(hipMemcpyToSymbolAsync(HIP_SYMBOL(constant_words), constants.data() + 128, 512, 512, hipMemcpyHostToDevice,
                               nullptr));
    HIP(hipMemcpyFromSymbol(got.data(), HIP_SYMBOL(device_words), 4096, 0, hipMemcpyDeviceToHost));
    SAME_AS(got, words);
    Buffer<uint32_t> out(1024);
    combine_symbols<<<4, 256>>>(out.data);
    FINISHED();
    for (size_t i = 0; i < 1024; i++) want[i] = words[i] ^ constants[i % 256];
    SAME_AS(out.read(), want);
    HIP(hipMemcpyFromSymbol(got.data(), HIP_SYMBOL(device_words), 2048, 2048, hipMemcpyDeviceToHost));
    for (size_t i = 0; i < 512; i++) EQUAL(got[i], (i + 512) * 3);
    size_t size = 0;
    void* address = nullptr;
    HIP(hipGetSymbolSize(&size, HIP_SYMBOL(device_words)));
    HIP(hipGetSymbolAddress(&address, HIP_SYMBOL(device_words)));
    EQUAL(size, 4096);
    HIP(hipMemcpy(got.data(), address, 4096, hipMemcpyDeviceToHost));
    for (size_t i = 0; i < 1024; i++) EQUAL(got[i], i * 3);
}

CASE(memcpy_zero_bytes_is_nothing) {
    Words want = noise(16, 17);
    Buffer<uint32_t> device(want);
    HIP(hipMemcpy(device.data, want.data() + 8, 0, hipMemcpyHostToDevice));
    HIP(hipMemset(device.data, 0xff, 0));
    SAME_AS(device.read(), want);
}
