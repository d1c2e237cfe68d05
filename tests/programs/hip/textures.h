// Arrays, textures and surfaces for the cases of images, and what a texture is expected to give.
#pragma once

#include <algorithm>
#include <cmath>

#include "hip_cases.h"

// A chip without image instructions has no arrays: what HIP says then is all that a case looks at there.
static bool has_images() {
    int supported = 0;
    HIP(hipDeviceGetAttribute(&supported, hipDeviceAttributeImageSupport, 0));
    if (supported) return true;
    hipChannelFormatDesc format = hipCreateChannelDesc<float>();
    hipArray_t array = nullptr;
    hipError_t error = hipMallocArray(&array, &format, 8, 8, hipArrayDefault);
    CHECK(error == hipErrorNotSupported || error == hipErrorInvalidValue, "%s", hipGetErrorName(error));
    return false;
}

#define WITHOUT_IMAGES_RETURN() \
    if (!has_images()) return

#define SAME_BITS(got, want, ...)                                                                            \
    do {                                                                                                     \
        float is = (got), should = (want);                                                                   \
        if (memcmp(&is, &should, 4) != 0) {                                                                  \
            fprintf(stderr, "%g (%a), not %g (%a)\n", is, is, should, should);                               \
            FAIL(__VA_ARGS__);                                                                               \
        }                                                                                                    \
    } while (0)

static int mixed(int n) {
    uint32_t x = (uint32_t)n * 2654435761u + 12345u;
    x ^= x >> 15, x *= 2246822519u, x ^= x >> 13, x *= 3266489917u, x ^= x >> 16;
    return (int)(x & 0x3fffffff);
}

// Elements of any bits, but no NaN as a float.
template <class T>
static std::vector<T> random_elements(size_t count) {
    std::vector<T> all(count);
    uint8_t* bytes = (uint8_t*)all.data();
    for (size_t n = 0; n < count * sizeof(T); n++) bytes[n] = (uint8_t)mixed((int)n);
    for (size_t n = 3; n < count * sizeof(T); n += 4) bytes[n] &= 0xbf;
    return all;
}

static std::vector<float> whole_floats(size_t count) {
    std::vector<float> all(count);
    for (size_t n = 0; n < count; n++) all[n] = (float)(mixed((int)n) % 1000);
    return all;
}

struct Extent {
    int width, height, depth;
};

// An array with elements.
struct Array {
    hipArray_t handle = nullptr;
    Extent extent;
    Array(hipChannelFormatDesc format, Extent extent, const void* from, size_t element, unsigned flags = hipArrayDefault)
        : extent(extent) {
        hipExtent size = make_hipExtent(extent.width, extent.height, extent.depth);
        HIP(hipMalloc3DArray(&handle, &format, size, flags));
        if (from) copy(const_cast<void*>(from), element, true);
    }
    void copy(void* memory, size_t element, bool to_array) {
        int height = std::max(extent.height, 1), depth = std::max(extent.depth, 1);
        // Before HIP 6, layers of rows are rows.
        if (HIP_VERSION_MAJOR < 6 && extent.height == 0) std::swap(height, depth);
        hipMemcpy3DParms copy = {};
        hipPitchedPtr linear = make_hipPitchedPtr(memory, extent.width * element, extent.width, height);
        if (to_array)
            copy.srcPtr = linear, copy.dstArray = handle;
        else
            copy.dstPtr = linear, copy.srcArray = handle;
        copy.extent = make_hipExtent(extent.width, height, depth);
        copy.kind = to_array ? hipMemcpyHostToDevice : hipMemcpyDeviceToHost;
        HIP(hipMemcpy3D(&copy));
    }
    hipResourceDesc resource() const {
        hipResourceDesc resource = {};
        resource.resType = hipResourceTypeArray;
        resource.res.array.array = handle;
        return resource;
    }
    ~Array() { HIP(hipFreeArray(handle)); }
};

struct Texture {
    hipTextureObject_t handle = nullptr;
    Texture(const hipResourceDesc& resource, hipTextureFilterMode filter, hipTextureReadMode read,
            hipTextureAddressMode mode, bool normalized) {
        hipTextureDesc description = {};
        for (auto& axis : description.addressMode) axis = mode;
        description.filterMode = filter;
        description.readMode = read;
        description.normalizedCoords = normalized;
        HIP(hipCreateTextureObject(&handle, &resource, &description, nullptr));
    }
    ~Texture() { HIP(hipDestroyTextureObject(handle)); }
};

// The fetch of each place, by the number of dimensions.
template <class T>
__global__ void fetch(hipTextureObject_t texture, const float4* at, T* out, int count, int dimensions) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
#if !defined(__gfx942__) && !defined(__gfx950__)  // Processors without image instructions.
    float4 place = at[n];
    if (dimensions == 1) out[n] = tex1D<T>(texture, place.x);
    if (dimensions == 2) out[n] = tex2D<T>(texture, place.x, place.y);
    if (dimensions == 3) out[n] = tex3D<T>(texture, place.x, place.y, place.z);
#endif
}

template <class T>
static std::vector<T> fetched(const Texture& texture, const std::vector<float4>& at, int dimensions) {
    Buffer<float4> places(at);
    Buffer<T> out(at.size());
    fetch<T><<<(at.size() + 63) / 64, 64>>>(texture.handle, places.data, out.data, (int)at.size(), dimensions);
    FINISHED();
    return out.read();
}

// The element for an index that may be outside; -1 for the border.
static int inside(int index, int size, hipTextureAddressMode mode) {
    switch (mode) {
        case hipAddressModeWrap: return ((index % size) + size) % size;
        case hipAddressModeMirror:
            index = ((index % (2 * size)) + 2 * size) % (2 * size);
            return index < size ? index : 2 * size - 1 - index;
        case hipAddressModeBorder: return index < 0 || index >= size ? -1 : index;
        default: return std::min(std::max(index, 0), size - 1);
    }
}

// What a fetch gives: the nearest element, or the sum of the neighbours with shares of 256ths.
static float expected(const std::vector<float>& from, const int size[3], const float place[3], int dimensions,
                      hipTextureAddressMode mode, bool normalized, hipTextureFilterMode filter) {
    int index[3][2] = {};
    double share[3][2] = {{1, 0}, {1, 0}, {1, 0}};
    for (int axis = 0; axis < dimensions; axis++) {
        double at = (double)place[axis] * (normalized ? size[axis] : 1);
        if (filter == hipFilterModePoint) {
            index[axis][0] = inside((int)std::floor(at), size[axis], mode);
            continue;
        }
        long steps = (long)std::floor(at * 256 + 0.5) - 128;
        long first = (long)std::floor(steps / 256.0);
        share[axis][1] = (steps - first * 256) / 256.0;
        share[axis][0] = 1 - share[axis][1];
        for (int n = 0; n < 2; n++) index[axis][n] = inside((int)first + n, size[axis], mode);
    }
    double sum = 0;
    for (int n = 0; n < 8; n++) {
        int x = index[0][n & 1], y = index[1][n >> 1 & 1], z = index[2][n >> 2];
        double part = share[0][n & 1] * share[1][n >> 1 & 1] * share[2][n >> 2];
        if (part > 0 && x >= 0 && y >= 0 && z >= 0) sum += part * from[(z * size[1] + y) * size[0] + x];
    }
    return (float)sum;
}
