// Images of every format, read and written, and with every sampler.
#include <math.h>

#include "image_cases.h"

static float half_to_float(uint16_t half) {
    int exponent = half >> 10 & 31, digits = half & 1023;
    float size = exponent ? ldexpf((float)(digits + 1024), exponent - 25) : ldexpf((float)digits, -24);
    return half & 0x8000 ? -size : size;
}

// A component as a kernel sees it: the bits of a float, or of a whole number.
static uint32_t component(cl_channel_type type, const uint8_t* at) {
    uint16_t wide;
    uint32_t word;
    float value;
    memcpy(&wide, at, 2);
    switch (type) {
        case CL_UNSIGNED_INT8: return *at;
        case CL_SIGNED_INT8: return (uint32_t)(int8_t)*at;
        case CL_UNSIGNED_INT16: return wide;
        case CL_SIGNED_INT16: return (uint32_t)(int16_t)wide;
        case CL_UNORM_INT8: value = (float)(*at / 255.0); break;
        case CL_SNORM_INT8: value = (float)((int8_t)*at / 127.0); break;
        case CL_UNORM_INT16: value = (float)(wide / 65535.0); break;
        case CL_SNORM_INT16: value = (float)((int16_t)wide / 32767.0); break;
        case CL_HALF_FLOAT: value = half_to_float(wide); break;
        default: memcpy(&word, at, 4); return word;
    }
    if (value < -1 && type != CL_HALF_FLOAT) value = -1;
    memcpy(&word, &value, 4);
    return word;
}

static size_t bytes_of(cl_channel_type type) {
    switch (type) {
        case CL_UNSIGNED_INT8: case CL_SIGNED_INT8: case CL_UNORM_INT8: case CL_SNORM_INT8: return 1;
        case CL_UNSIGNED_INT32: case CL_SIGNED_INT32: case CL_FLOAT: return 4;
        default: return 2;
    }
}

#define COPY_KERNEL(letter, vector, bits)                                                             \
    "kernel void copy(read_only image2d_t from, write_only image2d_t to, global uint4* seen) {\n"     \
    "    int2 at = (int2)(get_global_id(0), get_global_id(1));\n"                                     \
    "    " vector " texel = read_image" letter "(from, at);\n"                                        \
    "    seen[at.y * get_global_size(0) + at.x] = " bits "(texel);\n"                                 \
    "    write_image" letter "(to, at, texel);\n"                                                     \
    "}\n"

// Every texel is read, told, and written to another image, which has the same bytes then.
static void format(cl_channel_order order, cl_channel_type type) {
    IMAGES;
    enum { WIDTH = 19, HEIGHT = 5, COUNT = WIDTH * HEIGHT };
    size_t components = order == CL_R ? 1 : order == CL_RG ? 2 : 4, bytes = bytes_of(type), texel = components * bytes;
    uint8_t from[COUNT * 16], to[COUNT * 16];
    fill_noise((uint32_t*)from, sizeof from / 4, 5);
    for (size_t n = 0; n < sizeof from; n++) {
        // No NaN, and no second name for -1.
        if ((type == CL_FLOAT && n % 4 == 3) || (type == CL_HALF_FLOAT && n % 2 == 1)) from[n] &= 0xbb;
        if ((type == CL_SNORM_INT8 || (type == CL_SNORM_INT16 && n % 2 == 0)) && from[n] == 0x80) from[n] = 0x81;
    }
    cl_image_format format = {order, type};
    cl_mem one = make_image(format, flat(WIDTH, HEIGHT), from), other = make_image(format, flat(WIDTH, HEIGHT), NULL);
    cl_mem seen = make_buffer(COUNT * 16, NULL);
    bool is_unsigned = type >= CL_UNSIGNED_INT8 && type <= CL_UNSIGNED_INT32;
    bool is_signed = type >= CL_SIGNED_INT8 && type <= CL_SIGNED_INT32;
    const char* source = is_unsigned ? COPY_KERNEL("ui", "uint4", "as_uint4")
                         : is_signed ? COPY_KERNEL("i", "int4", "as_uint4")
                                     : COPY_KERNEL("f", "float4", "as_uint4");
    cl_kernel kernel = build_kernel(source, "copy");
    SET_ARG(kernel, 0, one);
    SET_ARG(kernel, 1, other);
    SET_ARG(kernel, 2, seen);
    run_over(kernel, 2, WIDTH, HEIGHT, 1);
    uint32_t got[COUNT * 4];
    read_buffer(seen, got, sizeof got);
    for (size_t n = 0; n < COUNT; n++) {
        uint32_t one = is_unsigned || is_signed ? 1 : 0x3f800000, want[4] = {0, 0, 0, one};
        for (size_t c = 0; c < components; c++) {
            size_t place = order == CL_BGRA && c < 3 ? 2 - c : c;
            want[place] = component(type, from + n * texel + c * bytes);
        }
        for (int c = 0; c < 4; c++)
            CHECK(got[n * 4 + c] == want[c], "texel %zu, component %d is %#x, not %#x", n, c, got[n * 4 + c], want[c]);
    }
    read_image(other, WIDTH, HEIGHT, 1, to);
    SAME(to, from, COUNT * texel);
    CL(clReleaseMemObject(one));
    CL(clReleaseMemObject(other));
    CL(clReleaseMemObject(seen));
    close_device();
}

CASE(image_rgba_unsigned_int8) { format(CL_RGBA, CL_UNSIGNED_INT8); }
CASE(image_rgba_signed_int8) { format(CL_RGBA, CL_SIGNED_INT8); }
CASE(image_rgba_unorm_int8) { format(CL_RGBA, CL_UNORM_INT8); }
CASE(image_rgba_snorm_int8) { format(CL_RGBA, CL_SNORM_INT8); }
CASE(image_rgba_unsigned_int16) { format(CL_RGBA, CL_UNSIGNED_INT16); }
CASE(image_rgba_signed_int16) { format(CL_RGBA, CL_SIGNED_INT16); }
CASE(image_rgba_unorm_int16) { format(CL_RGBA, CL_UNORM_INT16); }
CASE(image_rgba_snorm_int16) { format(CL_RGBA, CL_SNORM_INT16); }
CASE(image_rgba_half) { format(CL_RGBA, CL_HALF_FLOAT); }
CASE(image_rgba_unsigned_int32) { format(CL_RGBA, CL_UNSIGNED_INT32); }
CASE(image_rgba_signed_int32) { format(CL_RGBA, CL_SIGNED_INT32); }
CASE(image_rgba_float) { format(CL_RGBA, CL_FLOAT); }
CASE(image_bgra_unorm_int8) { format(CL_BGRA, CL_UNORM_INT8); }
CASE(image_rg_unorm_int8) { format(CL_RG, CL_UNORM_INT8); }
CASE(image_rg_signed_int16) { format(CL_RG, CL_SIGNED_INT16); }
CASE(image_rg_float) { format(CL_RG, CL_FLOAT); }
CASE(image_r_unorm_int8) { format(CL_R, CL_UNORM_INT8); }
CASE(image_r_snorm_int16) { format(CL_R, CL_SNORM_INT16); }
CASE(image_r_half) { format(CL_R, CL_HALF_FLOAT); }
CASE(image_r_unsigned_int32) { format(CL_R, CL_UNSIGNED_INT32); }

// The texel for an index that may be outside; -1 for the border.
static int inside(int index, int size, cl_addressing_mode mode) {
    switch (mode) {
        case CL_ADDRESS_REPEAT: return ((index % size) + size) % size;
        case CL_ADDRESS_MIRRORED_REPEAT:
            index = ((index % (2 * size)) + 2 * size) % (2 * size);
            return index < size ? index : 2 * size - 1 - index;
        case CL_ADDRESS_CLAMP: return index < 0 || index >= size ? -1 : index;
        default: return index < 0 ? 0 : index >= size ? size - 1 : index;
    }
}

// Places in and around an image. Expected are the nearest texel, or the sum of the neighbours with shares of whole 256ths.
static void places(cl_addressing_mode mode, cl_filter_mode filter, cl_bool normalized, int dimensions) {
    IMAGES;
    enum { COUNT = 600 };
    const int size[3] = {13, 7, dimensions > 2 ? 5 : 1};
    float from[13 * 7 * 5], at[COUNT * 4], got[COUNT];
    uint32_t *texels = noise(13 * 7 * 5, 8), *random = noise(COUNT * 4, 9);
    for (int n = 0; n < 13 * 7 * 5; n++) from[n] = (float)(texels[n] % 1000);
    for (int n = 0; n < COUNT * 4; n++)
        at[n] = ((float)(random[n] % 3000) - 1000) / 1024 * (normalized || n % 4 == 3 ? 1 : size[n % 4]);
    free(texels);
    free(random);
    cl_image_desc shape = flat(size[0], size[1]);
    if (dimensions > 2) shape.image_type = CL_MEM_OBJECT_IMAGE3D, shape.image_depth = size[2];
    cl_mem image = make_image((cl_image_format){CL_R, CL_FLOAT}, shape, from);
    cl_mem where = make_buffer(sizeof at, at), out = make_buffer(sizeof got, NULL);
    cl_sampler_properties list[] = {CL_SAMPLER_NORMALIZED_COORDS, normalized, CL_SAMPLER_ADDRESSING_MODE, mode,
                                    CL_SAMPLER_FILTER_MODE, filter, 0};
    cl_sampler sampler = clCreateSamplerWithProperties(context, list, &status);
    MADE("clCreateSamplerWithProperties");
    const char* flat_source =
        "kernel void fetch(read_only image2d_t image, sampler_t with, global float4* at, global float* out) {\n"
        "    size_t n = get_global_id(0);\n"
        "    out[n] = read_imagef(image, with, at[n].xy).x;\n}\n";
    const char* deep_source =
        "kernel void fetch(read_only image3d_t image, sampler_t with, global float4* at, global float* out) {\n"
        "    size_t n = get_global_id(0);\n"
        "    out[n] = read_imagef(image, with, at[n]).x;\n}\n";
    cl_kernel kernel = build_kernel(dimensions > 2 ? deep_source : flat_source, "fetch");
    SET_ARG(kernel, 0, image);
    SET_ARG(kernel, 1, sampler);
    SET_ARG(kernel, 2, where);
    SET_ARG(kernel, 3, out);
    run_over(kernel, 1, COUNT, 1, 1);
    read_buffer(out, got, sizeof got);
    for (int n = 0; n < COUNT; n++) {
        int index[3][2] = {{0}};
        double share[3][2] = {{1, 0}, {1, 0}, {1, 0}}, sum = 0;
        for (int axis = 0; axis < dimensions; axis++) {
            double place = (double)at[n * 4 + axis] * (normalized ? size[axis] : 1);
            int first = (int)floor(place);
            if (filter == CL_FILTER_LINEAR) {
                double steps = floor(place * 256 + 0.5) - 128;
                first = (int)floor(steps / 256);
                share[axis][1] = (steps - first * 256.0) / 256;
                share[axis][0] = 1 - share[axis][1];
            }
            for (int k = 0; k < 2; k++) index[axis][k] = inside(first + k, size[axis], mode);
        }
        for (int k = 0; k < 8; k++) {
            int x = index[0][k & 1], y = index[1][k >> 1 & 1], z = index[2][k >> 2];
            double part = share[0][k & 1] * share[1][k >> 1 & 1] * share[2][k >> 2];
            if (part > 0 && x >= 0 && y >= 0 && z >= 0) sum += part * from[(z * size[1] + y) * size[0] + x];
        }
        CHECK(got[n] == (float)sum, "at %g %g %g: %g, not %g", at[n * 4], at[n * 4 + 1], at[n * 4 + 2], got[n], sum);
    }
    CL(clReleaseSampler(sampler));
    CL(clReleaseMemObject(image));
    CL(clReleaseMemObject(where));
    CL(clReleaseMemObject(out));
    close_device();
}

CASE(image_edge_nearest) { places(CL_ADDRESS_CLAMP_TO_EDGE, CL_FILTER_NEAREST, CL_FALSE, 2); }
CASE(image_edge_linear) { places(CL_ADDRESS_CLAMP_TO_EDGE, CL_FILTER_LINEAR, CL_FALSE, 2); }
CASE(image_edge_nearest_normalized) { places(CL_ADDRESS_CLAMP_TO_EDGE, CL_FILTER_NEAREST, CL_TRUE, 2); }
CASE(image_edge_linear_normalized) { places(CL_ADDRESS_CLAMP_TO_EDGE, CL_FILTER_LINEAR, CL_TRUE, 2); }
CASE(image_border_nearest) { places(CL_ADDRESS_CLAMP, CL_FILTER_NEAREST, CL_FALSE, 2); }
CASE(image_border_linear) { places(CL_ADDRESS_CLAMP, CL_FILTER_LINEAR, CL_FALSE, 2); }
CASE(image_border_nearest_normalized) { places(CL_ADDRESS_CLAMP, CL_FILTER_NEAREST, CL_TRUE, 2); }
CASE(image_border_linear_normalized) { places(CL_ADDRESS_CLAMP, CL_FILTER_LINEAR, CL_TRUE, 2); }
CASE(image_repeat_nearest) { places(CL_ADDRESS_REPEAT, CL_FILTER_NEAREST, CL_TRUE, 2); }
CASE(image_repeat_linear) { places(CL_ADDRESS_REPEAT, CL_FILTER_LINEAR, CL_TRUE, 2); }
CASE(image_mirror_nearest) { places(CL_ADDRESS_MIRRORED_REPEAT, CL_FILTER_NEAREST, CL_TRUE, 2); }
CASE(image_mirror_linear) { places(CL_ADDRESS_MIRRORED_REPEAT, CL_FILTER_LINEAR, CL_TRUE, 2); }
CASE(image_3d_nearest) { places(CL_ADDRESS_CLAMP, CL_FILTER_NEAREST, CL_FALSE, 3); }
CASE(image_3d_linear) { places(CL_ADDRESS_CLAMP_TO_EDGE, CL_FILTER_LINEAR, CL_TRUE, 3); }
