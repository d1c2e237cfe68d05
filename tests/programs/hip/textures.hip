// Textures over arrays, pitched and linear memory, and surfaces: memory that is read and written through image instructions.
#include "textures.h"

// A function of each type of element: bytes, shorts, words and floats, in one, two and four components.
template <class T>
static void elements() {
    WITHOUT_IMAGES_RETURN();
    const int width = 37, height = 9;
    auto from = random_elements<T>(width * height);
    Array array(hipCreateChannelDesc<T>(), {width, height, 0}, from.data(), sizeof(T));
    Texture texture(array.resource(), hipFilterModePoint, hipReadModeElementType, hipAddressModeClamp, false);
    std::vector<float4> at;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) at.push_back({x + 0.5f, y + 0.25f, 0, 0});
    SAME_AS(fetched<T>(texture, at, 2), from);
}

CASE(texture_2d) { elements<uint32_t>(); }
CASE(texture_char) { elements<char>(); }
CASE(texture_char2) { elements<char2>(); }
CASE(texture_char4) { elements<char4>(); }
CASE(texture_uchar) { elements<unsigned char>(); }
CASE(texture_uchar2) { elements<uchar2>(); }
CASE(texture_uchar4) { elements<uchar4>(); }
CASE(texture_short) { elements<short>(); }
CASE(texture_short2) { elements<short2>(); }
CASE(texture_short4) { elements<short4>(); }
CASE(texture_ushort) { elements<unsigned short>(); }
CASE(texture_ushort2) { elements<ushort2>(); }
CASE(texture_ushort4) { elements<ushort4>(); }
CASE(texture_int) { elements<int>(); }
CASE(texture_int2) { elements<int2>(); }
CASE(texture_int4) { elements<int4>(); }
CASE(texture_uint2) { elements<uint2>(); }
CASE(texture_uint4) { elements<uint4>(); }
CASE(texture_float) { elements<float>(); }
CASE(texture_float2) { elements<float2>(); }
CASE(texture_float4) { elements<float4>(); }

// Whole numbers as floats from 0 or -1 to 1.
template <class T, class Scalar>
static void normal(double most) {
    WITHOUT_IMAGES_RETURN();
    const int width = 40, height = 5, components = sizeof(T) / sizeof(Scalar);
    auto from = random_elements<T>(width * height);
    Array array(hipCreateChannelDesc<T>(), {width, height, 0}, from.data(), sizeof(T));
    Texture texture(array.resource(), hipFilterModePoint, hipReadModeNormalizedFloat, hipAddressModeClamp, false);
    std::vector<float4> at, want;
    for (int n = 0; n < width * height; n++) {
        at.push_back({n % width + 0.5f, n / width + 0.5f, 0, 0});
        float4 texel = {0, 0, 0, components == 1 ? 0.0f : 1.0f};
        for (int c = 0; c < components; c++) {
            Scalar value = ((const Scalar*)&from[n])[c];
            (&texel.x)[c] = std::max((float)(value / most), -1.0f);
        }
        want.push_back(texel);
    }
    auto got = fetched<float4>(texture, at, 2);
    for (size_t n = 0; n < got.size(); n++)
        for (int c = 0; c < components; c++) SAME_BITS((&got[n].x)[c], (&want[n].x)[c], "texel %zu, %d", n, c);
}

CASE(texture_normal_uchar) { normal<unsigned char, unsigned char>(255); }
CASE(texture_normal_uchar4) { normal<uchar4, unsigned char>(255); }
CASE(texture_normal_char2) { normal<char2, signed char>(127); }
CASE(texture_normal_ushort4) { normal<ushort4, unsigned short>(65535); }
CASE(texture_normal_short) { normal<short, short>(32767); }

// Places in and around an image, with every filter, for an address mode. Expected are the sums of the neighbours, whose shares are
// whole 256ths.
static void places(hipTextureAddressMode mode, bool normalized, hipTextureFilterMode filter, int dimensions) {
    WITHOUT_IMAGES_RETURN();
    int size[3] = {13, dimensions > 1 ? 7 : 1, dimensions > 2 ? 5 : 1};
    auto from = whole_floats(size[0] * size[1] * size[2]);
    Extent extent = {size[0], dimensions > 1 ? size[1] : 0, dimensions > 2 ? size[2] : 0};
    Array array(hipCreateChannelDesc<float>(), extent, from.data(), 4);
    Texture texture(array.resource(), filter, hipReadModeElementType, mode, normalized);
    std::vector<float4> at;
    std::vector<float> want;
    auto coordinate = [&](int n) { return (float)(mixed(n) % 3000 - 1000) / 1024.0f; };
    for (int n = 0; n < 700; n++) {
        float place[3] = {};
        for (int axis = 0; axis < dimensions; axis++)
            place[axis] = coordinate(3 * n + axis) * (normalized ? 1.0f : (float)size[axis]);
        at.push_back({place[0], place[1], place[2], 0});
        want.push_back(expected(from, size, place, dimensions, mode, normalized, filter));
    }
    auto got = fetched<float>(texture, at, dimensions);
    for (size_t n = 0; n < got.size(); n++)
        SAME_BITS(got[n], want[n], "at %g %g %g", at[n].x, at[n].y, at[n].z);
}

const auto POINT = hipFilterModePoint, LINEAR = hipFilterModeLinear;

CASE(texture_clamp_point) { places(hipAddressModeClamp, false, POINT, 2); }
CASE(texture_clamp_linear) { places(hipAddressModeClamp, false, LINEAR, 2); }
CASE(texture_clamp_normalized) { places(hipAddressModeClamp, true, LINEAR, 2); }
CASE(texture_border_point) { places(hipAddressModeBorder, false, POINT, 2); }
CASE(texture_border_linear) { places(hipAddressModeBorder, true, LINEAR, 2); }
CASE(texture_wrap_point) { places(hipAddressModeWrap, true, POINT, 2); }
CASE(texture_wrap_linear) { places(hipAddressModeWrap, true, LINEAR, 2); }
CASE(texture_mirror_point) { places(hipAddressModeMirror, true, POINT, 2); }
CASE(texture_mirror_linear) { places(hipAddressModeMirror, true, LINEAR, 2); }
CASE(texture_1d_point) { places(hipAddressModeClamp, false, POINT, 1); }
CASE(texture_1d_linear) { places(hipAddressModeWrap, true, LINEAR, 1); }
CASE(texture_3d_point) { places(hipAddressModeBorder, false, POINT, 3); }
CASE(texture_3d_linear) { places(hipAddressModeClamp, true, LINEAR, 3); }
