// Copies and fills between places of different kinds and strides, and in chains.
#include "hip_cases.h"

using Words = std::vector<uint32_t>;
using Bytes = std::vector<uint8_t>;

static Bytes noise_bytes(size_t count, uint32_t seed) {
    Words words = noise((count + 3) / 4, seed);
    Bytes bytes(count);
    memcpy(bytes.data(), words.data(), count);
    return bytes;
}

struct Stream {
    hipStream_t stream;
    Stream() { HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking)); }
    Stream(const Stream&) = delete;
    ~Stream() { HIP(hipStreamDestroy(stream)); }
    void wait() const { HIP(hipStreamSynchronize(stream)); }
};

// Copies `rows` rows of `width` bytes between places with pitches of their own; what the calls have to come to.
static void copy_rows(uint8_t* to, size_t to_pitch, const uint8_t* from, size_t from_pitch, size_t width, size_t rows) {
    for (size_t row = 0; row < rows; row++) memcpy(to + row * to_pitch, from + row * from_pitch, width);
}

// Each link of a long chain of copies on one stream needs the one before.
CASE(memcpy_chain_is_in_order) {
    const size_t links = 40, count = 4099;
    Words from = noise(count, 4), to(count);
    std::vector<uint32_t*> chain(links);
    for (uint32_t*& link : chain) HIP(hipMalloc((void**)&link, count * 4));
    Stream on;
    HIP(hipMemcpyAsync(chain[0], from.data(), count * 4, hipMemcpyHostToDevice, on.stream));
    for (size_t i = 1; i < links; i++)
        HIP(hipMemcpyAsync(chain[i], chain[i - 1], count * 4, hipMemcpyDeviceToDevice, on.stream));
    HIP(hipMemcpyAsync(to.data(), chain[links - 1], count * 4, hipMemcpyDeviceToHost, on.stream));
    on.wait();
    SAME_AS(to, from);
    for (uint32_t* link : chain) HIP(hipFree(link));
}

// Two parts of one buffer change places by way of a third.
CASE(memcpy_inside_one_buffer) {
    const size_t half = 20011;
    Words from = noise(half * 2, 5), want(from.begin() + half, from.end());
    want.insert(want.end(), from.begin(), from.begin() + half);
    Buffer<uint32_t> device(from), spare(half);
    HIP(hipMemcpy(spare.data, device.data, half * 4, hipMemcpyDeviceToDevice));
    HIP(hipMemcpy(device.data, device.data + half, half * 4, hipMemcpyDeviceToDevice));
    HIP(hipMemcpy(device.data + half, spare.data, half * 4, hipMemcpyDeviceToDevice));
    SAME_AS(device.read(), want);
}

CASE(memcpy_2d_to_managed_and_pinned) {
    const size_t width = 123, rows = 57, pitch = 200;
    Bytes from = noise_bytes(pitch * rows, 6), want(pitch * rows, 0x31);
    copy_rows(want.data(), pitch, from.data(), pitch, width, rows);
    uint8_t *managed = nullptr, *pinned = nullptr;
    HIP(hipMallocManaged((void**)&managed, pitch * rows, hipMemAttachGlobal));
    HIP(hipHostMalloc((void**)&pinned, pitch * rows, hipHostMallocDefault));
    memset(managed, 0x31, pitch * rows);
    memset(pinned, 0x31, pitch * rows);
    HIP(hipMemcpy2D(managed, pitch, from.data(), pitch, width, rows, hipMemcpyDefault));
    HIP(hipMemcpy2D(pinned, pitch, managed, pitch, width, rows, hipMemcpyDefault));
    HIP(hipDeviceSynchronize());
    SAME(managed, want.data(), want.size());
    SAME(pinned, want.data(), want.size());
    HIP(hipFree(managed));
    HIP(hipHostFree(pinned));
}

// A column of single bytes is the narrowest row there is.
CASE(memcpy_2d_of_one_column) {
    const size_t rows = 500, pitch = 33;
    Bytes from = noise_bytes(pitch * rows, 7), to(rows), want(rows);
    Buffer<uint8_t> device(from);
    HIP(hipMemcpy2D(to.data(), 1, device.data + 16, pitch, 1, rows, hipMemcpyDeviceToHost));
    copy_rows(want.data(), 1, from.data() + 16, pitch, 1, rows);
    SAME_AS(to, want);
}

static hip_Memcpy2D box_2d(size_t width, size_t rows) {
    hip_Memcpy2D box = {};
    box.WidthInBytes = width;
    box.Height = rows;
    return box;
}

CASE(memcpy_drv_2d_unaligned) {
    const size_t width = 77, rows = 19, pitch = 81;
    Bytes from = noise_bytes(pitch * rows, 9), want(pitch * rows, 0x66);
    Buffer<uint8_t> device(want);
    hip_Memcpy2D box = box_2d(width, rows);
    box.srcMemoryType = hipMemoryTypeHost;
    box.srcHost = from.data();
    box.srcPitch = pitch;
    box.dstMemoryType = hipMemoryTypeDevice;
    box.dstDevice = (hipDeviceptr_t)device.data;
    box.dstPitch = pitch;
    HIP(hipDrvMemcpy2DUnaligned(&box));
    copy_rows(want.data(), pitch, from.data(), pitch, width, rows);
    SAME_AS(device.read(), want);
}

// Boxes of `depth` layers of `height` rows; all sizes in bytes.
struct Block {
    size_t pitch, height;
    size_t at(size_t x, size_t y, size_t z) const { return (z * height + y) * pitch + x; }
};

CASE(memcpy_drv_3d_async) {
    const unsigned width = 41, height = 7, depth = 5;
    const Block from_block = {64, 10}, to_block = {48, 9};
    Bytes from = noise_bytes(from_block.pitch * from_block.height * 8, 10);
    Bytes want(to_block.pitch * to_block.height * 6, 0x17);
    Buffer<uint8_t> source(from), target(want);
    HIP_MEMCPY3D box = {};
    box.srcMemoryType = box.dstMemoryType = hipMemoryTypeDevice;
    box.srcDevice = (hipDeviceptr_t)source.data;
    box.srcPitch = from_block.pitch;
    box.srcHeight = from_block.height;
    box.srcXInBytes = 9;
    box.srcY = 2;
    box.srcZ = 3;
    box.dstDevice = (hipDeviceptr_t)target.data;
    box.dstPitch = to_block.pitch;
    box.dstHeight = to_block.height;
    box.dstXInBytes = 5;
    box.dstY = 1;
    box.dstZ = 1;
    box.WidthInBytes = width;
    box.Height = height;
    box.Depth = depth;
    Stream on;
    HIP(hipDrvMemcpy3DAsync(&box, on.stream));
    on.wait();
    for (size_t z = 0; z < depth; z++)
        for (size_t y = 0; y < height; y++)
            memcpy(&want[to_block.at(5, y + 1, z + 1)], &from[from_block.at(9, y + 2, z + 3)], width);
    SAME_AS(target.read(), want);
}

CASE(memset_of_pinned_and_managed) {
    const size_t size = 30011;
    Bytes want(size, 0x5d);
    uint8_t *pinned = nullptr, *managed = nullptr;
    HIP(hipHostMalloc((void**)&pinned, size, hipHostMallocDefault));
    HIP(hipMallocManaged((void**)&managed, size, hipMemAttachGlobal));
    memset(pinned, 1, size);
    memset(managed, 2, size);
    HIP(hipMemset(pinned, 0x5d, size));
    HIP(hipMemset(managed, 0x5d, size));
    HIP(hipDeviceSynchronize());
    SAME(pinned, want.data(), size);
    SAME(managed, want.data(), size);
    HIP(hipHostFree(pinned));
    HIP(hipFree(managed));
}

__device__ uint32_t symbol_words[600];

CASE(memcpy_symbol_async) {
    Words words = noise(600, 16), to(600), want(600, 0x7f7f7f7f);
    Stream on;
    void* symbol = nullptr;
    HIP(hipGetSymbolAddress(&symbol, HIP_SYMBOL(symbol_words)));
    HIP(hipMemsetAsync(symbol, 0x7f, 2400, on.stream));
    HIP(hipMemcpyToSymbolAsync(HIP_SYMBOL(symbol_words), words.data(), 1000, 400, hipMemcpyHostToDevice, on.stream));
    HIP(hipMemcpyFromSymbolAsync(to.data(), HIP_SYMBOL(symbol_words), 2400, 0, hipMemcpyDeviceToHost, on.stream));
    on.wait();
    std::copy_n(words.begin(), 250, want.begin() + 100);
    SAME_AS(to, want);
}

CASE(malloc_pitch_of_elements) {
    const size_t width = 100, rows = 33;
    for (unsigned element : {4u, 8u, 16u}) {
        hipDeviceptr_t device = nullptr;
        size_t pitch = 0;
        HIP(hipMemAllocPitch(&device, &pitch, width * element, rows, element));
        CHECK(pitch >= width * element && pitch % element == 0, "pitch %zu of elements of %u bytes", pitch, element);
        Bytes from = noise_bytes(width * element * rows, 18 + element), to(from.size());
        HIP(hipMemcpy2D(device, pitch, from.data(), width * element, width * element, rows, hipMemcpyHostToDevice));
        HIP(hipMemcpy2D(to.data(), width * element, device, pitch, width * element, rows, hipMemcpyDeviceToHost));
        SAME_AS(to, from);
        HIP(hipFree(device));
    }
}
