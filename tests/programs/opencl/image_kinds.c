// Images of all dimensions, their copies and maps, and what the runtime refuses.
#include "image_cases.h"

static const cl_image_format WORDS = {CL_R, CL_UNSIGNED_INT32};

// Reads every texel of an image, changes it as `change` says, and writes it to the same place of another image.
static void write_each(cl_mem from, cl_mem to, const char* image, const char* place, const char* change, const size_t size[3]) {
    char source[1024];
    snprintf(source, sizeof source,
             "#pragma OPENCL EXTENSION cl_khr_3d_image_writes : enable\n"
             "kernel void each(read_only %s from, write_only %s to) {\n"
             "    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);\n"
             "    write_imageui(to, %s, read_imageui(from, %s) %s);\n}\n",
             image, image, place, place, change);
    cl_kernel kernel = build_kernel(source, "each");
    SET_ARG(kernel, 0, from);
    SET_ARG(kernel, 1, to);
    run_over(kernel, 3, size[0], size[1], size[2]);
}

// Every texel of an image of some kind is read, changed by its place, and written to another one.
static void kind(cl_mem_object_type type, const char* image, const char* place, unsigned dimensions) {
    IMAGES;
    enum { X = 21, Y = 6, Z = 4 };
    size_t size[3] = {X, dimensions > 1 ? Y : 1, dimensions > 2 ? Z : 1}, count = size[0] * size[1] * size[2];
    bool has_layers = type == CL_MEM_OBJECT_IMAGE1D_ARRAY || type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
    cl_image_desc shape = {.image_type = type, .image_width = X};
    if (dimensions == 2 && has_layers) shape.image_array_size = Y;
    if (dimensions > 2 || (dimensions == 2 && !has_layers)) shape.image_height = Y;
    if (dimensions > 2) *(has_layers ? &shape.image_array_size : &shape.image_depth) = Z;
    uint32_t *from = noise(X * Y * Z, 3), to[X * Y * Z], want[X * Y * Z];
    cl_mem one = make_image(WORDS, shape, from), other = make_image(WORDS, shape, NULL);
    write_each(one, other, image, place, "* 3 + (uint)(x + 100 * y + 10000 * z)", size);
    read_image(other, size[0], size[1], size[2], to);
    for (size_t n = 0; n < count; n++)
        want[n] = from[n] * 3 + (uint32_t)(n % X + 100 * (n / X % size[1]) + 10000 * (n / X / size[1]));
    SAME(to, want, count);
    free(from);
    CL(clReleaseMemObject(one));
    CL(clReleaseMemObject(other));
    close_device();
}

CASE(image_1d) { kind(CL_MEM_OBJECT_IMAGE1D, "image1d_t", "x", 1); }
CASE(image_1d_array) { kind(CL_MEM_OBJECT_IMAGE1D_ARRAY, "image1d_array_t", "(int2)(x, y)", 2); }
CASE(image_2d) { kind(CL_MEM_OBJECT_IMAGE2D, "image2d_t", "(int2)(x, y)", 2); }
CASE(image_2d_array) { kind(CL_MEM_OBJECT_IMAGE2D_ARRAY, "image2d_array_t", "(int4)(x, y, z, 0)", 3); }
CASE(image_3d) { kind(CL_MEM_OBJECT_IMAGE3D, "image3d_t", "(int4)(x, y, z, 0)", 3); }

// A large image has other layouts than a small one. Each texel comes back by a copy, and from a kernel that moves it to another image.
static void large(cl_channel_order order, cl_channel_type type, size_t bytes, cl_image_desc shape) {
    IMAGES;
    const size_t width = shape.image_width, height = shape.image_height;
    const bool is_volume = shape.image_type == CL_MEM_OBJECT_IMAGE3D;
    const size_t depth = is_volume ? shape.image_depth : shape.image_array_size ? shape.image_array_size : 1;
    const char* image = is_volume ? "image3d_t" : shape.image_array_size ? "image2d_array_t" : "image2d_t";
    const char* place = depth > 1 ? "(int4)(x, y, z, 0)" : "(int2)(x, y)";
    const size_t count = width * height * depth * bytes / 4;
    uint32_t *content = noise(count, 5), *got = noise(count, 6);
    cl_image_format format = {order, type};
    cl_mem one = make_image(format, shape, content), other = make_image(format, shape, NULL);
    read_image(one, width, height, depth, got);
    SAME(got, content, count);
    write_each(one, other, image, place, "", (size_t[3]){width, height, depth});
    memset(got, 0, count * 4);
    read_image(other, width, height, depth, got);
    SAME(got, content, count);
    free(content);
    free(got);
    CL(clReleaseMemObject(one));
    CL(clReleaseMemObject(other));
    close_device();
}

CASE(image_of_bytes_is_large) { large(CL_R, CL_UNSIGNED_INT8, 1, flat(640, 480)); }
CASE(image_of_halves_is_large) { large(CL_R, CL_UNSIGNED_INT16, 2, flat(500, 520)); }
CASE(image_of_words_is_large) { large(CL_RGBA, CL_UNSIGNED_INT8, 4, flat(512, 300)); }
CASE(image_of_pairs_is_large) { large(CL_RGBA, CL_UNSIGNED_INT16, 8, flat(300, 260)); }
CASE(image_of_fours_is_large) { large(CL_RGBA, CL_UNSIGNED_INT32, 16, flat(260, 200)); }
CASE(image_with_layers_is_large) {
    cl_image_desc shape = flat(260, 200);
    shape.image_type = CL_MEM_OBJECT_IMAGE2D_ARRAY;
    shape.image_array_size = 5;
    large(CL_RGBA, CL_UNSIGNED_INT8, 4, shape);
}
CASE(volume_is_large) {
    cl_image_desc shape = flat(100, 70);
    shape.image_type = CL_MEM_OBJECT_IMAGE3D;
    shape.image_depth = 66;
    large(CL_RGBA, CL_UNSIGNED_INT8, 4, shape);
}

CASE(image_1d_buffer) {
    IMAGES;
    enum { COUNT = 700 };
    uint32_t *from = noise(COUNT, 4), to[COUNT], want[COUNT];
    cl_mem buffer = make_buffer(COUNT * 4, from), out = make_buffer(COUNT * 4, NULL);
    cl_image_desc shape = {.image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER, .image_width = COUNT, .mem_object = buffer};
    cl_mem image = make_image(WORDS, shape, NULL);
    shape.mem_object = out;
    cl_mem other = make_image(WORDS, shape, NULL);
    cl_kernel kernel = build_kernel("kernel void turn(read_only image1d_buffer_t from, write_only image1d_buffer_t to) {\n"
                                    "    int x = get_global_id(0);\n"
                                    "    write_imageui(to, x, read_imageui(from, x) + (uint)x);\n}\n",
                                    "turn");
    SET_ARG(kernel, 0, image);
    SET_ARG(kernel, 1, other);
    run_over(kernel, 1, COUNT, 1, 1);
    read_buffer(out, to, sizeof to);
    for (unsigned n = 0; n < COUNT; n++) want[n] = from[n] + n;
    SAME(to, want, COUNT);
    free(from);
    CL(clReleaseMemObject(image));
    CL(clReleaseMemObject(other));
    CL(clReleaseMemObject(buffer));
    CL(clReleaseMemObject(out));
    close_device();
}

// An image over the memory of a buffer, whose rows are further apart than they are long.
CASE(image_from_buffer) {
    IMAGES;
    cl_uint unit = 0;
    CL(clGetDeviceInfo(device, CL_DEVICE_IMAGE_PITCH_ALIGNMENT, sizeof unit, &unit, NULL));
    CHECK(unit > 0, "an alignment of %u", unit);
    enum { WIDTH = 13, HEIGHT = 4 };
    size_t pitch = (WIDTH + unit - 1) / unit * unit + unit;
    uint32_t *from = noise(pitch * HEIGHT, 6), to[WIDTH * HEIGHT], want[WIDTH * HEIGHT];
    cl_mem buffer = make_buffer(pitch * HEIGHT * 4, from), out = make_buffer(sizeof to, NULL);
    cl_image_desc shape = flat(WIDTH, HEIGHT);
    shape.image_row_pitch = pitch * 4;
    shape.mem_object = buffer;
    cl_mem image = make_image(WORDS, shape, NULL);
    cl_kernel kernel = build_kernel("kernel void take(read_only image2d_t from, global uint* to) {\n"
                                    "    int2 at = (int2)(get_global_id(0), get_global_id(1));\n"
                                    "    to[at.y * get_global_size(0) + at.x] = read_imageui(from, at).x;\n}\n",
                                    "take");
    SET_ARG(kernel, 0, image);
    SET_ARG(kernel, 1, out);
    run_over(kernel, 2, WIDTH, HEIGHT, 1);
    read_buffer(out, to, sizeof to);
    for (size_t n = 0; n < WIDTH * HEIGHT; n++) want[n] = from[n / WIDTH * pitch + n % WIDTH];
    SAME(to, want, WIDTH * HEIGHT);
    free(from);
    CL(clReleaseMemObject(image));
    CL(clReleaseMemObject(buffer));
    CL(clReleaseMemObject(out));
    close_device();
}

CASE(image_read_and_written) {
    IMAGES;
    enum { WIDTH = 16, HEIGHT = 8 };
    uint32_t *from = noise(WIDTH * HEIGHT, 7), to[WIDTH * HEIGHT], want[WIDTH * HEIGHT];
    cl_mem image = make_image(WORDS, flat(WIDTH, HEIGHT), from);
    cl_kernel kernel = build_kernel("kernel void turn(read_write image2d_t image) {\n"
                                    "    int2 at = (int2)(get_global_id(0), get_global_id(1));\n"
                                    "    write_imageui(image, at, read_imageui(image, at) * 5 + 1);\n}\n",
                                    "turn");
    SET_ARG(kernel, 0, image);
    run_over(kernel, 2, WIDTH, HEIGHT, 1);
    read_image(image, WIDTH, HEIGHT, 1, to);
    for (size_t n = 0; n < WIDTH * HEIGHT; n++) want[n] = from[n] * 5 + 1;
    SAME(to, want, WIDTH * HEIGHT);
    free(from);
    CL(clReleaseMemObject(image));
    close_device();
}

CASE(image_srgb_is_read_as_light) {
    IMAGES;
    uint8_t from[256 * 4];
    for (int n = 0; n < 256 * 4; n++) from[n] = (uint8_t)(n / 4);
    cl_mem image = make_image((cl_image_format){CL_sRGBA, CL_UNORM_INT8}, flat(256, 1), from);
    cl_mem out = make_buffer(256 * 16, NULL);
    cl_kernel kernel = build_kernel("kernel void take(read_only image2d_t from, global float4* to) {\n"
                                    "    int x = get_global_id(0);\n"
                                    "    to[x] = read_imagef(from, (int2)(x, 0));\n}\n",
                                    "take");
    SET_ARG(kernel, 0, image);
    SET_ARG(kernel, 1, out);
    run_over(kernel, 1, 256, 1, 1);
    float got[256 * 4];
    read_buffer(out, got, sizeof got);
    for (int n = 1; n < 256; n++) {
        CHECK(got[n * 4] > got[n * 4 - 4] && got[n * 4] == got[n * 4 + 2], "%d: %g %g", n, got[n * 4], got[n * 4 + 2]);
        CHECK(got[n * 4 + 3] == (float)(n / 255.0), "alpha of %d is %g", n, got[n * 4 + 3]);
    }
    // The ends, the end of the straight part, and a middle.
    const struct { int at; float light; } known[] = {{0, 0}, {10, 0.00303527f}, {128, 0.21586050f}, {255, 1}};
    for (int n = 0; n < 4; n++) {
        float off = got[known[n].at * 4] - known[n].light;
        CHECK(off < 1e-6f && off > -1e-6f, "%d is %g", known[n].at, got[known[n].at * 4]);
    }
    CL(clReleaseMemObject(image));
    CL(clReleaseMemObject(out));
    close_device();
}

CASE(image_queries_of_kernels) {
    IMAGES;
    cl_image_desc shape = {.image_type = CL_MEM_OBJECT_IMAGE3D, .image_width = 30, .image_height = 20, .image_depth = 10};
    cl_mem image = make_image((cl_image_format){CL_RG, CL_HALF_FLOAT}, shape, NULL), out = make_buffer(5 * 4, NULL);
    cl_kernel kernel = build_kernel("kernel void ask(read_only image3d_t image, global int* to) {\n"
                                    "    to[0] = get_image_width(image), to[1] = get_image_height(image);\n"
                                    "    to[2] = get_image_depth(image), to[3] = get_image_channel_data_type(image);\n"
                                    "    to[4] = get_image_channel_order(image);\n}\n",
                                    "ask");
    SET_ARG(kernel, 0, image);
    SET_ARG(kernel, 1, out);
    run_over(kernel, 1, 1, 1, 1);
    int32_t got[5], want[5] = {30, 20, 10, CL_HALF_FLOAT, CL_RG};
    read_buffer(out, got, sizeof got);
    SAME(got, want, 5);
    CL(clReleaseMemObject(image));
    CL(clReleaseMemObject(out));
    close_device();
}

CASE(image_fill_with_a_float_color) {
    IMAGES;
    cl_mem image = make_image((cl_image_format){CL_RGBA, CL_UNORM_INT8}, flat(20, 10), NULL);
    const float black[4] = {0}, color[4] = {1, 0.5f, 0, 0.2f};
    size_t origin[3] = {0}, all[3] = {20, 10, 1}, part[3] = {7, 4, 1}, at[3] = {5, 3, 0};
    CL(clEnqueueFillImage(queue, image, black, origin, all, 0, NULL, NULL));
    CL(clEnqueueFillImage(queue, image, color, at, part, 0, NULL, NULL));
    uint32_t got[200], want[200];
    read_image(image, 20, 10, 1, got);
    for (int n = 0; n < 200; n++) {
        bool is_in = n % 20 >= 5 && n % 20 < 12 && n / 20 >= 3 && n / 20 < 7;
        // A half of 255 is rounded to even.
        want[n] = is_in ? 0x330080ff : 0;
    }
    SAME(got, want, 200);
    CL(clReleaseMemObject(image));
    close_device();
}

CASE(image_fill_with_whole_numbers) {
    IMAGES;
    cl_image_desc shape = {.image_type = CL_MEM_OBJECT_IMAGE2D_ARRAY, .image_width = 9, .image_height = 5, .image_array_size = 3};
    cl_mem image = make_image((cl_image_format){CL_RGBA, CL_SIGNED_INT16}, shape, NULL);
    const int32_t color[4] = {-5, 70000, 300, -70000};
    size_t origin[3] = {0}, all[3] = {9, 5, 3};
    CL(clEnqueueFillImage(queue, image, color, origin, all, 0, NULL, NULL));
    int16_t got[9 * 5 * 3 * 4], want[9 * 5 * 3 * 4];
    read_image(image, 9, 5, 3, got);
    const int16_t texel[4] = {-5, 32767, 300, -32768};
    for (int n = 0; n < 9 * 5 * 3 * 4; n++) want[n] = texel[n % 4];
    SAME(got, want, 9 * 5 * 3 * 4);
    CL(clReleaseMemObject(image));
    close_device();
}

CASE(image_copy_to_image) {
    IMAGES;
    uint32_t *from = noise(30 * 12, 1), *other = noise(25 * 20, 2), got[25 * 20];
    cl_mem one = make_image(WORDS, flat(30, 12), from), two = make_image(WORDS, flat(25, 20), other);
    size_t source[3] = {4, 3, 0}, target[3] = {11, 9, 0}, region[3] = {10, 6, 1};
    CL(clEnqueueCopyImage(queue, one, two, source, target, region, 0, NULL, NULL));
    read_image(two, 25, 20, 1, got);
    for (int n = 0; n < 60; n++) other[(9 + n / 10) * 25 + 11 + n % 10] = from[(3 + n / 10) * 30 + 4 + n % 10];
    SAME(got, other, 25 * 20);
    free(from);
    free(other);
    CL(clReleaseMemObject(one));
    CL(clReleaseMemObject(two));
    close_device();
}

CASE(image_copy_to_and_from_buffer) {
    IMAGES;
    uint32_t *from = noise(17 * 9, 1), got[17 * 9], want[17 * 9];
    cl_mem image = make_image(WORDS, flat(17, 9), from), buffer = make_buffer(sizeof got, NULL);
    size_t at[3] = {3, 2, 0}, region[3] = {5, 4, 1}, back[3] = {10, 5, 0};
    CL(clEnqueueCopyImageToBuffer(queue, image, buffer, at, region, 16, 0, NULL, NULL));
    CL(clEnqueueCopyBufferToImage(queue, buffer, image, 16, back, region, 0, NULL, NULL));
    read_image(image, 17, 9, 1, got);
    memcpy(want, from, sizeof want);
    for (int n = 0; n < 20; n++) want[(5 + n / 5) * 17 + 10 + n % 5] = from[(2 + n / 5) * 17 + 3 + n % 5];
    SAME(got, want, 17 * 9);
    free(from);
    CL(clReleaseMemObject(image));
    CL(clReleaseMemObject(buffer));
    close_device();
}

CASE(image_write_of_a_part) {
    IMAGES;
    uint32_t *from = noise(16 * 16, 1), *part = noise(10 * 3, 2), got[16 * 16];
    cl_mem image = make_image(WORDS, flat(16, 16), from);
    size_t at[3] = {2, 12, 0}, region[3] = {8, 3, 1};
    // Rows of ten words, of which eight are written.
    CL(clEnqueueWriteImage(queue, image, CL_TRUE, at, region, 10 * 4, 0, part, 0, NULL, NULL));
    read_image(image, 16, 16, 1, got);
    for (int n = 0; n < 24; n++) from[(12 + n / 8) * 16 + 2 + n % 8] = part[n / 8 * 10 + n % 8];
    SAME(got, from, 16 * 16);
    free(from);
    free(part);
    CL(clReleaseMemObject(image));
    close_device();
}

CASE(image_map) {
    IMAGES;
    uint32_t *from = noise(16 * 16, 1), got[16 * 16];
    cl_mem image = make_image(WORDS, flat(16, 16), from);
    size_t at[3] = {4, 4, 0}, region[3] = {6, 5, 1}, pitch = 0;
    uint8_t* mapped = (uint8_t*)clEnqueueMapImage(queue, image, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, at, region, &pitch,
                                                  NULL, 0, NULL, NULL, &status);
    MADE("clEnqueueMapImage");
    for (int n = 0; n < 30; n++) {
        uint32_t* word = (uint32_t*)(mapped + (size_t)(n / 6) * pitch) + n % 6;
        uint32_t* mine = from + (4 + n / 6) * 16 + 4 + n % 6;
        EQUAL(*word, *mine);
        *word = *mine = *mine + 9;
    }
    CL(clEnqueueUnmapMemObject(queue, image, mapped, 0, NULL, NULL));
    read_image(image, 16, 16, 1, got);
    SAME(got, from, 16 * 16);
    free(from);
    CL(clReleaseMemObject(image));
    close_device();
}

CASE(image_info) {
    IMAGES;
    cl_mem image = make_image((cl_image_format){CL_RG, CL_UNORM_INT16}, flat(33, 44), NULL);
    size_t width = 0, height = 0, element = 0;
    cl_image_format format = {0};
    CL(clGetImageInfo(image, CL_IMAGE_WIDTH, sizeof width, &width, NULL));
    CL(clGetImageInfo(image, CL_IMAGE_HEIGHT, sizeof height, &height, NULL));
    CL(clGetImageInfo(image, CL_IMAGE_ELEMENT_SIZE, sizeof element, &element, NULL));
    CL(clGetImageInfo(image, CL_IMAGE_FORMAT, sizeof format, &format, NULL));
    CHECK(width == 33 && height == 44 && element == 4, "%zu x %zu of %zu", width, height, element);
    CHECK(format.image_channel_order == CL_RG && format.image_channel_data_type == CL_UNORM_INT16, "another format");
    cl_uint formats = 0;
    CL(clGetSupportedImageFormats(context, CL_MEM_READ_WRITE, CL_MEM_OBJECT_IMAGE2D, 0, NULL, &formats));
    CHECK(formats >= 20, "%u formats", formats);
    CL(clReleaseMemObject(image));
    close_device();
}

CASE(image_refusals) {
    IMAGES;
    cl_image_format format = {CL_RGBA, CL_UNORM_INT8}, none = {CL_RGB, CL_FLOAT};
    cl_image_desc shape = flat(8, 8), empty = flat(0, 8);
    NOT_MADE(clCreateImage(context, CL_MEM_READ_WRITE, NULL, &shape, NULL, &status), CL_INVALID_IMAGE_FORMAT_DESCRIPTOR);
    NOT_MADE(clCreateImage(context, CL_MEM_READ_WRITE, &none, &shape, NULL, &status), CL_INVALID_IMAGE_FORMAT_DESCRIPTOR);
    NOT_MADE(clCreateImage(context, CL_MEM_READ_WRITE, &format, &empty, NULL, &status), CL_INVALID_IMAGE_SIZE);
    cl_mem image = make_image(format, shape, NULL);
    uint32_t words[64];
    size_t origin[3] = {4, 0, 0}, region[3] = {8, 8, 1};
    CL_FAILS(clEnqueueReadImage(queue, image, CL_TRUE, origin, region, 0, 0, words, 0, NULL, NULL), CL_INVALID_VALUE);
    cl_mem buffer = make_buffer(64, NULL);
    size_t start[3] = {0};
    CL_FAILS(clEnqueueReadImage(queue, buffer, CL_TRUE, start, region, 0, 0, words, 0, NULL, NULL), CL_INVALID_MEM_OBJECT);
    CL(clReleaseMemObject(buffer));
    CL(clReleaseMemObject(image));
    close_device();
}
