// Arrays and textures: memory that is read through image instructions.
#include "hip_cases.h"

using Words = std::vector<uint32_t>;

__global__ void fetch(hipTextureObject_t texture, uint32_t* out, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
#if !defined(__gfx942__) && !defined(__gfx950__)  // Processors without image instructions, for which the function does not compile.
    out[y * width + x] = tex2D<uint32_t>(texture, x, y);
#endif
}

static void fetch_a_texture() {
    const int width = 64, height = 32;
    Words from = noise(width * height, 70);
    hipChannelFormatDesc format = hipCreateChannelDesc<uint32_t>();
    hipArray_t array;
    HIP(hipMallocArray(&array, &format, width, height, hipArrayDefault));
    HIP(hipMemcpy2DToArray(array, 0, 0, from.data(), width * 4, width * 4, height, hipMemcpyHostToDevice));
    hipResourceDesc resource = {};
    resource.resType = hipResourceTypeArray;
    resource.res.array.array = array;
    hipTextureDesc description = {};
    description.addressMode[0] = description.addressMode[1] = hipAddressModeClamp;
    description.filterMode = hipFilterModePoint;
    description.readMode = hipReadModeElementType;
    hipTextureObject_t texture;
    HIP(hipCreateTextureObject(&texture, &resource, &description, nullptr));
    Buffer<uint32_t> out(from.size());
    fetch<<<dim3(1, height), width>>>(texture, out.data, width);
    FINISHED();
    SAME_AS(out.read(), from);
    HIP(hipDestroyTextureObject(texture));
    HIP(hipFreeArray(array));
}

// In a child, so that a device without image instructions ends that one.
CASE(texture_2d) {
    char said[1500];
    int ended = in_child(fetch_a_texture, said, sizeof said);
    CHECK(ended == 0, "status %#x: %s", ended, said);
}
