// Layers, faces, memory without an array, surfaces, copies of arrays, and what the runtime refuses.
#include "textures.h"

const auto POINT = hipFilterModePoint, LINEAR = hipFilterModeLinear;
const auto ELEMENT = hipReadModeElementType;
const auto CLAMP = hipAddressModeClamp;

enum Form { LAYERS_1D, LAYERS_2D, LEVEL, GRADIENTS, LINEAR_MEMORY };

template <class T>
__global__ void fetch_form(hipTextureObject_t texture, const float4* at, T* out, int count, Form form) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
#if !defined(__gfx942__) && !defined(__gfx950__)  // Processors without image instructions.
    float4 p = at[n];
    switch (form) {
        case LAYERS_1D: out[n] = tex1DLayered<T>(texture, p.x, (int)p.w); break;
        case LAYERS_2D: out[n] = tex2DLayered<T>(texture, p.x, p.y, (int)p.w); break;
        case LEVEL: out[n] = tex2DLod<T>(texture, p.x, p.y, p.w); break;
        case GRADIENTS: out[n] = tex2DGrad<T>(texture, p.x, p.y, make_float2(p.z, 0), make_float2(0, p.w)); break;
        case LINEAR_MEMORY: out[n] = tex1Dfetch<T>(texture, (int)p.x); break;
        default: break;
    }
#endif
}

template <class T>
static std::vector<T> fetched_form(const Texture& texture, const std::vector<float4>& at, Form form) {
    Buffer<float4> places(at);
    Buffer<T> out(at.size());
    fetch_form<T><<<(at.size() + 63) / 64, 64>>>(texture.handle, places.data, out.data, (int)at.size(), form);
    FINISHED();
    return out.read();
}

static void layers(int dimensions, hipTextureFilterMode filter) {
    WITHOUT_IMAGES_RETURN();
    const int width = 19, height = dimensions > 1 ? 6 : 1, count = 4;
    auto from = whole_floats(width * height * count);
    Array array(hipCreateChannelDesc<float>(), {width, dimensions > 1 ? height : 0, count}, from.data(), 4, hipArrayLayered);
    Texture texture(array.resource(), filter, ELEMENT, CLAMP, false);
    std::vector<float4> at;
    std::vector<float> want;
    const int size[3] = {width, height, 1};
    for (int n = 0; n < 300; n++) {
        float place[3] = {(float)(mixed(n) % 6000) / 256.0f - 2.0f, (float)(mixed(n + 999) % 2000) / 256.0f - 1.0f, 0};
        int layer = n % count;
        at.push_back({place[0], place[1], 0, (float)layer});
        std::vector<float> part(from.begin() + layer * width * height, from.begin() + (layer + 1) * width * height);
        want.push_back(expected(part, size, place, dimensions, CLAMP, false, filter));
    }
    SAME_AS(fetched_form<float>(texture, at, dimensions > 1 ? LAYERS_2D : LAYERS_1D), want);
}

CASE(texture_layers_1d) { layers(1, POINT); }
CASE(texture_layers_1d_linear) { layers(1, LINEAR); }
CASE(texture_layers_2d) { layers(2, POINT); }
CASE(texture_layers_2d_linear) { layers(2, LINEAR); }

// HIP makes no arrays for cubes.
CASE(texture_cubemap_is_refused) {
    WITHOUT_IMAGES_RETURN();
    hipChannelFormatDesc format = hipCreateChannelDesc<float>();
    hipArray_t array = nullptr;
    HIP_FAILS(hipMalloc3DArray(&array, &format, make_hipExtent(8, 8, 6), hipArrayCubemap), hipErrorInvalidValue);
}

CASE(texture_level_of_one) {
    WITHOUT_IMAGES_RETURN();
    auto from = whole_floats(16 * 16);
    Array array(hipCreateChannelDesc<float>(), {16, 16, 0}, from.data(), 4);
    Texture texture(array.resource(), POINT, ELEMENT, CLAMP, true);
    std::vector<float4> at;
    for (int n = 0; n < 256; n++) at.push_back({(n % 16 + 0.5f) / 16, (n / 16 + 0.5f) / 16, 0.25f, (float)(n % 5)});
    SAME_AS(fetched_form<float>(texture, at, LEVEL), from);
    SAME_AS(fetched_form<float>(texture, at, GRADIENTS), from);
}

template <int component>
__global__ void gather(hipTextureObject_t texture, const float4* at, float4* out, int count) {
    int n = threadIdx.x;
    if (n >= count) return;
#if !defined(__gfx942__) && !defined(__gfx950__)  // Processors without image instructions.
    out[n] = tex2Dgather<float4>(texture, at[n].x, at[n].y, component);
#endif
}

// HIP's functions name the components 1, 2 and 3, and take any other number for the last one.
CASE(texture_gather) {
    WITHOUT_IMAGES_RETURN();
    const int width = 9, height = 5;
    auto from = random_elements<float4>(width * height);
    Array array(hipCreateChannelDesc<float4>(), {width, height, 0}, from.data(), 16, hipArrayTextureGather);
    Texture texture(array.resource(), LINEAR, ELEMENT, CLAMP, true);
    std::vector<float4> at;
    for (int n = 0; n < 60; n++) at.push_back({(mixed(n) % 1000) / 1000.0f, (mixed(n + 77) % 1000) / 1000.0f, 0, 0});
    Buffer<float4> places(at), out(at.size());
    auto check = [&](int component) {
        FINISHED();
        auto got = out.read();
        for (size_t n = 0; n < at.size(); n++) {
            auto first = [](float at, int size) {
                return (int)std::floor((std::floor((double)at * size * 256 + 0.5) - 128) / 256);
            };
            int x = first(at[n].x, width), y = first(at[n].y, height);
            const int order[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
            for (int c = 0; c < 4; c++) {
                int column = inside(x + order[c][0], width, CLAMP), row = inside(y + order[c][1], height, CLAMP);
                SAME_BITS((&got[n].x)[c], (&from[row * width + column].x)[(component + 3) % 4], "%zu: %d", n, c);
            }
        }
    };
    gather<0><<<1, 64>>>(texture.handle, places.data, out.data, (int)at.size());
    check(0);
    gather<1><<<1, 64>>>(texture.handle, places.data, out.data, (int)at.size());
    check(1);
    gather<3><<<1, 64>>>(texture.handle, places.data, out.data, (int)at.size());
    check(3);
}

template <class T>
static void linear_memory() {
    WITHOUT_IMAGES_RETURN();
    auto from = random_elements<T>(3000);
    Buffer<T> memory(from);
    hipResourceDesc resource = {};
    resource.resType = hipResourceTypeLinear;
    resource.res.linear.devPtr = memory.data;
    resource.res.linear.desc = hipCreateChannelDesc<T>();
    resource.res.linear.sizeInBytes = memory.bytes();
    Texture texture(resource, POINT, ELEMENT, CLAMP, false);
    std::vector<float4> at;
    std::vector<T> want;
    for (int n = 0; n < 500; n++) {
        int place = mixed(n) % 3000;
        at.push_back({(float)place, 0, 0, 0});
        want.push_back(from[place]);
    }
    SAME_AS(fetched_form<T>(texture, at, LINEAR_MEMORY), want);
}

CASE(texture_linear_memory) { linear_memory<int>(); }
CASE(texture_linear_memory_of_bytes) { linear_memory<uchar4>(); }
CASE(texture_linear_memory_of_vectors) { linear_memory<float4>(); }

static void pitched(hipTextureFilterMode filter, bool normalized) {
    WITHOUT_IMAGES_RETURN();
    const int size[3] = {45, 11, 1};
    auto from = whole_floats(size[0] * size[1]);
    float* memory;
    size_t pitch;
    HIP(hipMallocPitch((void**)&memory, &pitch, size[0] * 4, size[1]));
    HIP(hipMemcpy2D(memory, pitch, from.data(), size[0] * 4, size[0] * 4, size[1], hipMemcpyHostToDevice));
    hipResourceDesc resource = {};
    resource.resType = hipResourceTypePitch2D;
    resource.res.pitch2D.devPtr = memory;
    resource.res.pitch2D.desc = hipCreateChannelDesc<float>();
    resource.res.pitch2D.width = size[0];
    resource.res.pitch2D.height = size[1];
    resource.res.pitch2D.pitchInBytes = pitch;
    {
        Texture texture(resource, filter, ELEMENT, CLAMP, normalized);
        std::vector<float4> at;
        std::vector<float> want;
        for (int n = 0; n < 400; n++) {
            float place[3] = {(float)(mixed(n) % 1000) / 1024.0f, (float)(mixed(n + 5000) % 1000) / 1024.0f, 0};
            if (!normalized) place[0] *= size[0], place[1] *= size[1];
            at.push_back({place[0], place[1], 0, 0});
            want.push_back(expected(from, size, place, 2, CLAMP, normalized, filter));
        }
        SAME_AS(fetched<float>(texture, at, 2), want);
    }
    HIP(hipFree(memory));
}

CASE(texture_pitched) { pitched(POINT, false); }
CASE(texture_pitched_linear) { pitched(LINEAR, true); }

// Each element of a surface is read and written at once, by its place in bytes.
template <class T>
__global__ void turn_surface(hipSurfaceObject_t surface, int width, int height, int dimensions) {
    int x = threadIdx.x, y = blockIdx.x, z = blockIdx.y;
    if (x >= width) return;
#if !defined(__gfx942__) && !defined(__gfx950__)  // Processors without image instructions.
    T value;
    int at = x * (int)sizeof(T);
    if (dimensions == 1) surf1Dread(&value, surface, at);
    if (dimensions == 2) surf2Dread(&value, surface, at, y);
    if (dimensions == 3) surf3Dread(&value, surface, at, y, z);
    unsigned* words = (unsigned*)&value;
    words[0] = words[0] * 3 + x + 10 * y + 100 * z;
    if (dimensions == 1) surf1Dwrite(value, surface, at);
    if (dimensions == 2) surf2Dwrite(value, surface, at, y);
    if (dimensions == 3) surf3Dwrite(value, surface, at, y, z);
#endif
}

template <class T>
static void surfaces(int dimensions) {
    WITHOUT_IMAGES_RETURN();
    const int width = 33, height = dimensions > 1 ? 6 : 1, depth = dimensions > 2 ? 5 : 1;
    auto from = random_elements<T>(width * height * depth);
    Array array(hipCreateChannelDesc<T>(), {width, dimensions > 1 ? height : 0, dimensions > 2 ? depth : 0}, from.data(),
                sizeof(T), hipArraySurfaceLoadStore);
    hipResourceDesc resource = array.resource();
    hipSurfaceObject_t surface;
    HIP(hipCreateSurfaceObject(&surface, &resource));
    turn_surface<T><<<dim3(height, depth), 64>>>(surface, width, height, dimensions);
    FINISHED();
    HIP(hipDestroySurfaceObject(surface));
    std::vector<T> got(from.size());
    array.copy(got.data(), sizeof(T), false);
    for (size_t n = 0; n < from.size(); n++) {
        unsigned* words = (unsigned*)&from[n];
        words[0] = words[0] * 3 + n % width + 10 * (n / width % height) + 100 * (n / width / height);
    }
    SAME_AS(got, from);
}

CASE(texture_surface_1d) { surfaces<unsigned>(1); }
CASE(texture_surface_2d) { surfaces<unsigned>(2); }
CASE(texture_surface_2d_of_vectors) { surfaces<uint4>(2); }
CASE(texture_surface_3d) { surfaces<uint2>(3); }
CASE(texture_surface_of_shorts) { surfaces<ushort2>(2); }

// Copies a part of an array to another one.
static hipError_t copy_part(hipArray_t to, size_t to_x, size_t to_y, hipArray_t from, size_t x, size_t y, size_t width, size_t height) {
#if HIP_VERSION_MAJOR < 6
    // It has no function of that name.
    hip_Memcpy2D part = {};
    part.srcMemoryType = part.dstMemoryType = hipMemoryTypeArray;
    part.srcArray = from, part.srcXInBytes = x, part.srcY = y;
    part.dstArray = to, part.dstXInBytes = to_x, part.dstY = to_y;
    part.WidthInBytes = width, part.Height = height;
    return hipMemcpyParam2D(&part);
#else
    return hipMemcpy2DArrayToArray(to, to_x, to_y, from, x, y, width, height, hipMemcpyDeviceToDevice);
#endif
}

// Parts of arrays, in both directions and from one to another.
CASE(texture_copies_of_parts) {
    WITHOUT_IMAGES_RETURN();
    const int width = 40, height = 20;
    auto from = random_elements<uint32_t>(width * height);
    Array one(hipCreateChannelDesc<uint32_t>(), {width, height, 0}, from.data(), 4);
    auto part = random_elements<uint32_t>(7 * 3);
    HIP(hipMemcpy2DToArray(one.handle, 5 * 4, 9, part.data(), 7 * 4, 7 * 4, 3, hipMemcpyHostToDevice));
    for (int n = 0; n < 21; n++) from[(9 + n / 7) * width + 5 + n % 7] = part[n];
    std::vector<uint32_t> all(width * height), some(10 * 4), want(10 * 4);
    HIP(hipMemcpy2DFromArray(all.data(), width * 4, one.handle, 0, 0, width * 4, height, hipMemcpyDeviceToHost));
    SAME_AS(all, from);
    HIP(hipMemcpy2DFromArray(some.data(), 10 * 4, one.handle, 3 * 4, 8, 10 * 4, 4, hipMemcpyDeviceToHost));
    for (int n = 0; n < 40; n++) want[n] = from[(8 + n / 10) * width + 3 + n % 10];
    SAME_AS(some, want);
    Array other(hipCreateChannelDesc<uint32_t>(), {width, height, 0}, all.data(), 4);
    HIP(copy_part(other.handle, 4, 1, one.handle, 8, 2, 12 * 4, 5));
    for (int n = 0; n < 60; n++) all[(1 + n / 12) * width + 1 + n % 12] = from[(2 + n / 12) * width + 2 + n % 12];
    std::vector<uint32_t> got(width * height);
    other.copy(got.data(), 4, false);
    SAME_AS(got, all);
}

CASE(texture_copies_on_the_device) {
    WITHOUT_IMAGES_RETURN();
    const int width = 24, height = 10;
    auto from = random_elements<uint32_t>(width * height);
    Buffer<uint32_t> memory(from), back(from.size());
    Array array(hipCreateChannelDesc<uint32_t>(), {width, height, 0}, nullptr, 4);
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    HIP(hipMemcpy2DToArrayAsync(array.handle, 0, 0, memory.data, width * 4, width * 4, height, hipMemcpyDeviceToDevice, stream));
    HIP(hipMemcpy2DFromArrayAsync(back.data, width * 4, array.handle, 0, 0, width * 4, height, hipMemcpyDeviceToDevice, stream));
    HIP(hipStreamSynchronize(stream));
    HIP(hipStreamDestroy(stream));
    SAME_AS(back.read(), from);
}

CASE(texture_copy_of_a_box) {
    WITHOUT_IMAGES_RETURN();
    const int width = 12, height = 9, depth = 7;
    auto from = random_elements<uint32_t>(width * height * depth);
    Array array(hipCreateChannelDesc<uint32_t>(), {width, height, depth}, from.data(), 4);
    std::vector<uint32_t> got(4 * 3 * 2), want;
    hipMemcpy3DParms copy = {};
    copy.srcArray = array.handle;
    copy.srcPos = make_hipPos(2, 5, 3);
    copy.dstPtr = make_hipPitchedPtr(got.data(), 4 * 4, 4, 3);
    copy.extent = make_hipExtent(4, 3, 2);
    copy.kind = hipMemcpyDeviceToHost;
    HIP(hipMemcpy3D(&copy));
    for (int n = 0; n < 24; n++) want.push_back(from[((3 + n / 12) * height + 5 + n / 4 % 3) * width + 2 + n % 4]);
    SAME_AS(got, want);
}

CASE(texture_sees_a_later_copy) {
    WITHOUT_IMAGES_RETURN();
    auto first = whole_floats(64), second = random_elements<float>(64);
    Array array(hipCreateChannelDesc<float>(), {8, 8, 0}, first.data(), 4);
    Texture texture(array.resource(), POINT, ELEMENT, CLAMP, false);
    std::vector<float4> at;
    for (int n = 0; n < 64; n++) at.push_back({n % 8 + 0.5f, n / 8 + 0.5f, 0, 0});
    SAME_AS(fetched<float>(texture, at, 2), first);
    array.copy(second.data(), 4, true);
    SAME_AS(fetched<float>(texture, at, 2), second);
}

CASE(texture_tells_what_it_was_made_of) {
    WITHOUT_IMAGES_RETURN();
    Array array(hipCreateChannelDesc<short4>(), {20, 30, 0}, nullptr, 8);
    hipChannelFormatDesc format = {};
    hipExtent extent = {};
    unsigned flags = 77;
    HIP(hipArrayGetInfo(&format, &extent, &flags, array.handle));
    CHECK(format.x == 16 && format.w == 16 && format.f == hipChannelFormatKindSigned, "%d %d %d", format.x, format.w, format.f);
    CHECK(extent.width == 20 && extent.height == 30 && extent.depth == 0, "%zu %zu %zu", extent.width, extent.height, extent.depth);
    Texture texture(array.resource(), LINEAR, hipReadModeNormalizedFloat, hipAddressModeMirror, true);
    hipResourceDesc resource = {};
    HIP(hipGetTextureObjectResourceDesc(&resource, texture.handle));
    CHECK(resource.resType == hipResourceTypeArray && resource.res.array.array == array.handle, "%d", resource.resType);
    hipTextureDesc description = {};
    HIP(hipGetTextureObjectTextureDesc(&description, texture.handle));
    CHECK(description.addressMode[0] == hipAddressModeMirror && description.normalizedCoords == 1, "%d", description.addressMode[0]);
}

CASE(texture_refusals) {
    WITHOUT_IMAGES_RETURN();
    hipChannelFormatDesc format = hipCreateChannelDesc<float>();
    hipArray_t array = nullptr;
    HIP_FAILS(hipMallocArray(nullptr, &format, 8, 8, 0), hipErrorInvalidValue);
    HIP_FAILS(hipMallocArray(&array, nullptr, 8, 8, 0), hipErrorInvalidValue);
    HIP_FAILS(hipFreeArray(nullptr), hipErrorInvalidValue);
    hipTextureObject_t texture;
    hipResourceDesc resource = {};
    hipTextureDesc description = {};
    HIP_FAILS(hipCreateTextureObject(nullptr, &resource, &description, nullptr), hipErrorInvalidValue);
    HIP_FAILS(hipCreateTextureObject(&texture, nullptr, &description, nullptr), hipErrorInvalidValue);
    resource.resType = hipResourceTypeArray;
    HIP_FAILS(hipCreateTextureObject(&texture, &resource, &description, nullptr), hipErrorInvalidValue);
    Array small(format, {8, 8, 0}, nullptr, 4);
    uint32_t words[64];
    HIP_FAILS(hipMemcpy2DToArray(small.handle, 0, 0, words, 16, 32, 2, hipMemcpyHostToDevice), hipErrorInvalidPitchValue);
}
