// OpenCL's platform, programs and kernels: what the device says of itself, compiling while running, and computing.
#include "cl_cases.h"

#include <math.h>

static const char* text_of(cl_device_info what) {
    static char text[8][16384];
    static unsigned at;
    char* to = text[at++ % 8];
    CL(clGetDeviceInfo(device, what, sizeof text[0], to, NULL));
    return to;
}

CASE(platform_info) {
    cl_uint count = 0;
    char text[4096] = "";
    CL(clGetPlatformIDs(0, NULL, &count));
    EQUAL(count, 1);
    CL(clGetPlatformIDs(1, &platform, NULL));
    CL(clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof text, text, NULL));
    CHECK(strcmp(text, "AMD Accelerated Parallel Processing") == 0, "%s", text);
    CL(clGetPlatformInfo(platform, CL_PLATFORM_VERSION, sizeof text, text, NULL));
    CHECK(strncmp(text, "OpenCL 2.", 9) == 0, "%s", text);
    CL(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &count));
    EQUAL(count, 1);
    CL_FAILS(clGetDeviceIDs(platform, CL_DEVICE_TYPE_CPU, 1, &device, NULL), CL_DEVICE_NOT_FOUND);
    CL_FAILS(clGetPlatformInfo(platform, 0x1234, sizeof text, text, NULL), CL_INVALID_VALUE);
}

CASE(device_info) {
    find_device();
    CHECK(strncmp(text_of(CL_DEVICE_NAME), GPU_NAME, strlen(GPU_NAME)) == 0, "%s", text_of(CL_DEVICE_NAME));
    CHECK(strstr(text_of(CL_DEVICE_VENDOR), "Advanced Micro Devices"), "%s", text_of(CL_DEVICE_VENDOR));
    CHECK(strstr(text_of(CL_DEVICE_EXTENSIONS), "cl_khr_fp64"), "%s", text_of(CL_DEVICE_EXTENSIONS));
    CHECK(strstr(text_of(CL_DEVICE_OPENCL_C_VERSION), "OpenCL C 2.0"), "%s", text_of(CL_DEVICE_OPENCL_C_VERSION));
    cl_device_type type = 0;
    cl_uint units = 0;
    size_t group = 0;
    cl_ulong local = 0, global = 0;
    CL(clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL));
    CL(clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL));
    CL(clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof group, &group, NULL));
    CL(clGetDeviceInfo(device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof local, &local, NULL));
    CL(clGetDeviceInfo(device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof global, &global, NULL));
    EQUAL(type, CL_DEVICE_TYPE_GPU);
    // Half of what a work group processor has, and all of what a compute unit of gfx950 has.
    EQUAL(local, GPU_LDS > 131072 ? GPU_LDS : 65536);
    CHECK(units > 0 && group >= 256 && global >= 64 << 20, "%u units, groups of %zu, %llu bytes", units, group,
          (unsigned long long)global);
}

CASE(vector_add) {
    open_device();
    enum { COUNT = 1 << 20 };
    cl_kernel kernel = build_kernel(
        "kernel void add(global const float* a, global const float* b, global float* c) {\n"
        "    size_t i = get_global_id(0);\n"
        "    c[i] = a[i] + b[i];\n"
        "}\n",
        "add");
    float *a = malloc(COUNT * 4), *b = malloc(COUNT * 4), *c = malloc(COUNT * 4), *want = malloc(COUNT * 4);
    for (int i = 0; i < COUNT; i++) {
        a[i] = (float)i * 0.37f;
        b[i] = (float)(COUNT - i) / 3.0f;
        want[i] = a[i] + b[i];
    }
    cl_mem buffer_a = make_buffer(COUNT * 4, a), buffer_b = make_buffer(COUNT * 4, b),
           buffer_c = make_buffer(COUNT * 4, NULL);
    SET_ARG(kernel, 0, buffer_a);
    SET_ARG(kernel, 1, buffer_b);
    SET_ARG(kernel, 2, buffer_c);
    run_1d(queue, kernel, COUNT, 256);
    read_buffer(buffer_c, c, COUNT * 4);
    SAME((uint32_t*)c, (uint32_t*)want, COUNT);
    CL(clReleaseMemObject(buffer_a));
    CL(clReleaseMemObject(buffer_b));
    CL(clReleaseMemObject(buffer_c));
    CL(clReleaseKernel(kernel));
    close_device();
}

static const char* const POWERS =
    "kernel void powers(global uint* words) {\n"
    "    uint x = words[get_global_id(0)], power = 1;\n"
    "    for (int n = 0; n < EXPONENT; n++) power *= x;\n"
    "    words[get_global_id(0)] = power;\n"
    "}\n";

static void check_powers(cl_program program, int exponent) {
    enum { COUNT = 4096 };
    uint32_t *want = noise(COUNT, (uint32_t)exponent), *got = noise(COUNT, 99);
    cl_kernel kernel = clCreateKernel(program, "powers", &status);
    MADE("clCreateKernel");
    cl_mem buffer = make_buffer(COUNT * 4, want);
    SET_ARG(kernel, 0, buffer);
    run_1d(queue, kernel, COUNT, 64);
    read_buffer(buffer, got, COUNT * 4);
    for (int i = 0; i < COUNT; i++) {
        uint32_t power = 1;
        for (int n = 0; n < exponent; n++) power *= want[i];
        want[i] = power;
    }
    SAME(got, want, COUNT);
    CL(clReleaseMemObject(buffer));
    CL(clReleaseKernel(kernel));
}

CASE(online_compile) {
    open_device();
    for (int exponent = 2; exponent < 5; exponent++) {
        char options[64];
        snprintf(options, sizeof options, "-DEXPONENT=%d -cl-std=CL1.2", exponent);
        cl_program program = build(POWERS, options);
        check_powers(program, exponent);
        char name[64] = "";
        CL(clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, sizeof name, name, NULL));
        CHECK(strcmp(name, "powers") == 0, "%s", name);
        CL(clReleaseProgram(program));
    }
    close_device();
}

CASE(compile_and_link_apart) {
    open_device();
    const char* library = "uint twice(uint x) { return x * 2 + 1; }\n";
    const char* user = "uint twice(uint x);\nkernel void run(global uint* words) {\n"
                       "    words[get_global_id(0)] = twice(words[get_global_id(0)]);\n}\n";
    cl_program parts[2];
    parts[0] = clCreateProgramWithSource(context, 1, &library, NULL, &status);
    MADE("clCreateProgramWithSource");
    parts[1] = clCreateProgramWithSource(context, 1, &user, NULL, &status);
    MADE("clCreateProgramWithSource");
    for (int i = 0; i < 2; i++) CL(clCompileProgram(parts[i], 1, &device, "", 0, NULL, NULL, NULL, NULL));
    cl_program linked = clLinkProgram(context, 1, &device, "", 2, parts, NULL, NULL, &status);
    MADE("clLinkProgram");
    cl_kernel kernel = clCreateKernel(linked, "run", &status);
    MADE("clCreateKernel");
    uint32_t *want = noise(256, 30), *got = noise(256, 31);
    cl_mem buffer = make_buffer(1024, want);
    SET_ARG(kernel, 0, buffer);
    run_1d(queue, kernel, 256, 64);
    read_buffer(buffer, got, 1024);
    for (int i = 0; i < 256; i++) want[i] = want[i] * 2 + 1;
    SAME(got, want, 256);
    CL(clReleaseMemObject(buffer));
    CL(clReleaseKernel(kernel));
    CL(clReleaseProgram(linked));
    CL(clReleaseProgram(parts[0]));
    CL(clReleaseProgram(parts[1]));
    close_device();
}

CASE(build_log_says_what_is_wrong) {
    open_device();
    const char* source = "kernel void broken(global int* out) {\n    out[0] = no_such_name;\n}\n";
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &status);
    MADE("clCreateProgramWithSource");
    CL_FAILS(clBuildProgram(program, 1, &device, "", NULL, NULL), CL_BUILD_PROGRAM_FAILURE);
    size_t size = 0;
    CL(clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size));
    char* log = calloc(1, size + 1);
    CL(clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, log, NULL));
    CHECK(strstr(log, "no_such_name") && strstr(log, ":2:"), "the log is \"%s\"", log);
    cl_build_status state = 0;
    CL(clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_STATUS, sizeof state, &state, NULL));
    EQUAL(state, CL_BUILD_ERROR);
    CHECK(!clCreateKernel(program, "broken", &status) && status != CL_SUCCESS, "a kernel of a broken program");
    CL(clReleaseProgram(program));
    close_device();
}

CASE(program_from_its_binary) {
    open_device();
    cl_program program = build(POWERS, "-DEXPONENT=3");
    size_t size = 0;
    CL(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL));
    CHECK(size > 0, "a binary of no bytes");
    unsigned char* binary = malloc(size);
    CL(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL));
    CL(clReleaseProgram(program));
    cl_int of_binary = -1;
    program = clCreateProgramWithBinary(context, 1, &device, &size, (const unsigned char**)&binary, &of_binary, &status);
    MADE("clCreateProgramWithBinary");
    CL(of_binary);
    CL(clBuildProgram(program, 1, &device, "", NULL, NULL));
    check_powers(program, 3);
    CL(clReleaseProgram(program));
    close_device();
}

CASE(local_memory) {
    open_device();
    enum { GROUP = 128, GROUPS = 40, COUNT = GROUP * GROUPS };
    cl_kernel kernel = build_kernel(
        "kernel void scan(global uint* words, local uint* given) {\n"
        "    local uint fixed[128];\n"
        "    uint i = get_local_id(0);\n"
        "    given[i] = words[get_global_id(0)] & 0xffff;\n"
        "    barrier(CLK_LOCAL_MEM_FENCE);\n"
        "    for (uint by = 1; by < 128; by *= 2) {\n"
        "        fixed[i] = given[i] + (i >= by ? given[i - by] : 0);\n"
        "        barrier(CLK_LOCAL_MEM_FENCE);\n"
        "        given[i] = fixed[i];\n"
        "        barrier(CLK_LOCAL_MEM_FENCE);\n"
        "    }\n"
        "    words[get_global_id(0)] = given[i];\n"
        "}\n",
        "scan");
    uint32_t *want = noise(COUNT, 40), *got = noise(COUNT, 41);
    cl_mem buffer = make_buffer(COUNT * 4, want);
    SET_ARG(kernel, 0, buffer);
    CL(clSetKernelArg(kernel, 1, GROUP * 4, NULL));
    run_1d(queue, kernel, COUNT, GROUP);
    read_buffer(buffer, got, COUNT * 4);
    for (int i = 0; i < COUNT; i++) want[i] = (want[i] & 0xffff) + (i % GROUP ? want[i - 1] : 0);
    SAME(got, want, COUNT);
    cl_ulong used = 0;
    CL(clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof used, &used, NULL));
    CHECK(used >= 512, "%llu bytes of local memory", (unsigned long long)used);
    CL(clReleaseMemObject(buffer));
    CL(clReleaseKernel(kernel));
    close_device();
}

CASE(atomics) {
    open_device();
    enum { COUNT = 32768 };
    cl_kernel kernel = build_kernel(
        "#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n"
        "kernel void count(global const uint* in, volatile global uint* out, global atomic_uint* modern,\n"
        "                  volatile global ulong* wide) {\n"
        "    uint x = in[get_global_id(0)];\n"
        "    atomic_inc(&out[x % 64]);\n"
        "    atomic_add(&out[64], x);\n"
        "    atomic_min(&out[65], x);\n"
        "    atomic_max(&out[66], x);\n"
        "    atomic_xor(&out[67], x);\n"
        "    uint seen = out[68], old;\n"
        "    do { old = seen; seen = atomic_cmpxchg(&out[68], old, old + (x & 7)); } while (seen != old);\n"
        "    atomic_fetch_add_explicit(modern, x & 3, memory_order_relaxed, memory_scope_device);\n"
        "    atom_add(wide, (ulong)x << 16);\n"
        "}\n",
        "count");
    uint32_t *in = noise(COUNT, 50), want[69] = {0}, got[69], modern = 0, zero = 0;
    uint64_t wide = 0, none = 0;
    want[65] = ~0u;
    cl_mem buffer_in = make_buffer(COUNT * 4, in), out = make_buffer(sizeof want, want),
           buffer_modern = make_buffer(4, &zero), buffer_wide = make_buffer(8, &none);
    SET_ARG(kernel, 0, buffer_in);
    SET_ARG(kernel, 1, out);
    SET_ARG(kernel, 2, buffer_modern);
    SET_ARG(kernel, 3, buffer_wide);
    run_1d(queue, kernel, COUNT, 256);
    read_buffer(out, got, sizeof got);
    for (int i = 0; i < COUNT; i++) {
        uint32_t x = in[i];
        want[x % 64]++;
        want[64] += x;
        if (x < want[65]) want[65] = x;
        if (x > want[66]) want[66] = x;
        want[67] ^= x;
        want[68] += x & 7;
        modern += x & 3;
        wide += (uint64_t)x << 16;
    }
    SAME(got, want, 69);
    read_buffer(buffer_modern, &zero, 4);
    read_buffer(buffer_wide, &none, 8);
    EQUAL(zero, modern);
    EQUAL(none, wide);
    CL(clReleaseKernel(kernel));
    close_device();
}

CASE(ranges_of_three_dimensions_with_offset) {
    open_device();
    enum { W = 48, H = 20, D = 6, COUNT = W * H * D };
    cl_kernel kernel = build_kernel(
        "kernel void place(global uint* out) {\n"
        "    size_t x = get_global_id(0) - get_global_offset(0), y = get_global_id(1) - get_global_offset(1),\n"
        "           z = get_global_id(2) - get_global_offset(2);\n"
        "    out[(z * get_global_size(1) + y) * get_global_size(0) + x] = get_global_id(0) * 10000\n"
        "        + get_global_id(1) * 100 + get_global_id(2) + get_group_id(1) * 1000000 + get_local_id(0) * 100000000;\n"
        "}\n",
        "place");
    size_t offset[3] = {3, 5, 7}, global[3] = {W, H, D}, local[3] = {16, 4, 2};
    uint32_t *want = noise(COUNT, 60), *got = noise(COUNT, 61);
    cl_mem buffer = make_buffer(COUNT * 4, NULL);
    SET_ARG(kernel, 0, buffer);
    CL(clEnqueueNDRangeKernel(queue, kernel, 3, offset, global, local, 0, NULL, NULL));
    read_buffer(buffer, got, COUNT * 4);
    for (uint32_t z = 0; z < D; z++)
        for (uint32_t y = 0; y < H; y++)
            for (uint32_t x = 0; x < W; x++)
                want[(z * H + y) * W + x] =
                    (x + 3) * 10000 + (y + 5) * 100 + z + 7 + y / 4 * 1000000 + x % 16 * 100000000;
    SAME(got, want, COUNT);
    CL(clReleaseMemObject(buffer));
    CL(clReleaseKernel(kernel));
    close_device();
}

CASE(double_and_vectors) {
    open_device();
    enum { COUNT = 2048 };
    cl_kernel kernel = build_kernel(
        "#pragma OPENCL FP_CONTRACT OFF\n"
        "kernel void run(global double4* words) {\n"
        "    double4 v = words[get_global_id(0)];\n"
        "    words[get_global_id(0)] = sqrt(fabs(v.wzyx)) / (v.yxwz + 3.0) + (double4)(v.x * v.y, v.lo, -v.w);\n"
        "}\n",
        "run");
    double *v = malloc(COUNT * 32), *got = malloc(COUNT * 32), *want = malloc(COUNT * 32);
    uint32_t* words = noise(COUNT * 4, 70);
    for (int i = 0; i < COUNT * 4; i++) v[i] = (double)words[i] / 65536.0;
    cl_mem buffer = make_buffer(COUNT * 32, v);
    SET_ARG(kernel, 0, buffer);
    run_1d(queue, kernel, COUNT, 64);
    read_buffer(buffer, got, COUNT * 32);
    for (int i = 0; i < COUNT; i++) {
        double* a = v + i * 4;
        double plus[4] = {a[0] * a[1], a[0], a[1], -a[3]}, under[4] = {a[1], a[0], a[3], a[2]};
        for (int k = 0; k < 4; k++) want[i * 4 + k] = sqrt(fabs(a[3 - k])) / (under[k] + 3.0) + plus[k];
    }
    SAME((uint64_t*)got, (uint64_t*)want, COUNT * 4);
    CL(clReleaseMemObject(buffer));
    CL(clReleaseKernel(kernel));
    close_device();
}

static void print_on_device(void) {
    open_device();
    cl_kernel kernel = build_kernel(
        "kernel void say(int base) {\n"
        "    printf(\"item %d of %s: %v4d %#x\\n\", base + (int)get_global_id(0), \"sixteen\",\n"
        "           (int4)(1, 2, 3, (int)get_global_id(0)), 255);\n"
        "}\n",
        "say");
    int base = 200;
    SET_ARG(kernel, 0, base);
    run_1d(queue, kernel, 16, 16);
    CL(clFinish(queue));
    CL(clReleaseKernel(kernel));
    close_device();
}

CASE(device_printf) {
    char* said = capture(stdout, print_on_device);
    for (int i = 0; i < 16; i++) {
        char want[64];
        snprintf(want, sizeof want, "item %d of sixteen: 1,2,3,%d 0xff\n", 200 + i, i);
        CHECK(strstr(said, want), "no \"%s\" in \"%.200s\"", want, said);
    }
    free(said);
}

static void turn_an_image(void) {
    open_device();
    enum { W = 64, H = 32 };
    cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
    cl_image_desc description = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = W, .image_height = H};
    uint32_t *want = noise(W * H, 80), *got = noise(W * H, 81);
    cl_mem image = clCreateImage(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, &format, &description, want, &status);
    MADE("clCreateImage");
    cl_kernel kernel = build_kernel(
        "kernel void turn(read_only image2d_t from, global uint* to) {\n"
        "    int x = get_global_id(0), y = get_global_id(1);\n"
        "    uint4 p = read_imageui(from, (int2)(x, y));\n"
        "    to[y * 64 + x] = p.x | p.y << 8 | p.z << 16 | p.w << 24;\n"
        "}\n",
        "turn");
    cl_mem buffer = make_buffer(W * H * 4, NULL);
    size_t global[2] = {W, H};
    SET_ARG(kernel, 0, image);
    SET_ARG(kernel, 1, buffer);
    CL(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, global, NULL, 0, NULL, NULL));
    read_buffer(buffer, got, W * H * 4);
    SAME(got, want, W * H);
    CL(clReleaseMemObject(buffer));
    CL(clReleaseMemObject(image));
    CL(clReleaseKernel(kernel));
    close_device();
}

// In a child, so that a device without image instructions ends that one.
CASE(images) {
    char said[1500];
    int ended = in_child(turn_an_image, said, sizeof said);
    CHECK(ended == 0, "status %#x: %s", ended, said);
}

CASE(kernel_info) {
    open_device();
    cl_program program = build("kernel __attribute__((reqd_work_group_size(32, 2, 1)))\n"
                               "void shaped(global const float* in, local int* scratch, int number) {}\n",
                               "-cl-kernel-arg-info");
    cl_kernel kernel = clCreateKernel(program, "shaped", &status);
    MADE("clCreateKernel");
    char name[64] = "";
    cl_uint arguments = 0;
    size_t group[3] = {0}, largest = 0;
    CL(clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL));
    CHECK(strcmp(name, "shaped") == 0, "%s", name);
    CL(clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof arguments, &arguments, NULL));
    EQUAL(arguments, 3);
    CL(clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof group, group, NULL));
    CHECK(group[0] == 32 && group[1] == 2 && group[2] == 1, "%zu x %zu x %zu", group[0], group[1], group[2]);
    CL(clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_WORK_GROUP_SIZE, sizeof largest, &largest, NULL));
    EQUAL(largest, 64);
    CL(clGetKernelArgInfo(kernel, 2, CL_KERNEL_ARG_NAME, sizeof name, name, NULL));
    CHECK(strcmp(name, "number") == 0, "%s", name);
    CL(clGetKernelArgInfo(kernel, 0, CL_KERNEL_ARG_TYPE_NAME, sizeof name, name, NULL));
    CHECK(strcmp(name, "float*") == 0, "%s", name);
    CL(clReleaseKernel(kernel));
    CL(clReleaseProgram(program));
    close_device();
}

CASE(kernel_errors) {
    open_device();
    cl_program program = build("kernel void one(global uint* out, uint value) { out[get_global_id(0)] = value; }\n", "");
    NOT_MADE(clCreateKernel(program, "two", &status), CL_INVALID_KERNEL_NAME);
    cl_kernel kernel = clCreateKernel(program, "one", &status);
    MADE("clCreateKernel");
    size_t global = 64, local = 64;
    uint32_t value = 77, got[64], want[64];
    uint64_t wide = 0;
    CL_FAILS(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL), CL_INVALID_KERNEL_ARGS);
    cl_mem buffer = make_buffer(256, NULL);
    SET_ARG(kernel, 0, buffer);
    CL_FAILS(clSetKernelArg(kernel, 2, sizeof value, &value), CL_INVALID_ARG_INDEX);
    CL_FAILS(clSetKernelArg(kernel, 1, sizeof wide, &wide), CL_INVALID_ARG_SIZE);
    SET_ARG(kernel, 1, value);
    CL_FAILS(clEnqueueNDRangeKernel(queue, kernel, 0, NULL, &global, &local, 0, NULL, NULL), CL_INVALID_WORK_DIMENSION);
    local = 2048;
    CL_FAILS(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL),
             CL_INVALID_WORK_GROUP_SIZE);
    CL_FAILS(clEnqueueNDRangeKernel(NULL, kernel, 1, NULL, &global, NULL, 0, NULL, NULL), CL_INVALID_COMMAND_QUEUE);
    CL_FAILS(clEnqueueNDRangeKernel(queue, NULL, 1, NULL, &global, NULL, 0, NULL, NULL), CL_INVALID_KERNEL);
    run_1d(queue, kernel, 64, 64);
    read_buffer(buffer, got, 256);
    for (int i = 0; i < 64; i++) want[i] = 77;
    SAME(got, want, 64);
    CL(clReleaseMemObject(buffer));
    CL(clReleaseKernel(kernel));
    CL(clReleaseProgram(program));
    close_device();
}

CASE(fork_before_use) {
    char said[4096];
    for (int i = 0; i < 2; i++) {
        int ended = in_child(case_vector_add, said, sizeof said);
        CHECK(ended == 0, "status %#x: %s", ended, said);
    }
    case_vector_add();
}
