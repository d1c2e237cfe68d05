// What the OpenCL programs share: checks of error codes by name, the device, its context, programs and buffers.
#pragma once

#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>

#include "../cases.h"

static const char* cl_error_name(cl_int error) {
    switch (error) {
#define NAME(name) \
    case name: return #name;
        NAME(CL_SUCCESS)
        NAME(CL_DEVICE_NOT_FOUND)
        NAME(CL_DEVICE_NOT_AVAILABLE)
        NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE)
        NAME(CL_OUT_OF_RESOURCES)
        NAME(CL_OUT_OF_HOST_MEMORY)
        NAME(CL_PROFILING_INFO_NOT_AVAILABLE)
        NAME(CL_MEM_COPY_OVERLAP)
        NAME(CL_BUILD_PROGRAM_FAILURE)
        NAME(CL_MISALIGNED_SUB_BUFFER_OFFSET)
        NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
        NAME(CL_COMPILE_PROGRAM_FAILURE)
        NAME(CL_LINK_PROGRAM_FAILURE)
        NAME(CL_INVALID_VALUE)
        NAME(CL_INVALID_DEVICE)
        NAME(CL_INVALID_CONTEXT)
        NAME(CL_INVALID_QUEUE_PROPERTIES)
        NAME(CL_INVALID_COMMAND_QUEUE)
        NAME(CL_INVALID_MEM_OBJECT)
        NAME(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR)
        NAME(CL_INVALID_IMAGE_SIZE)
        NAME(CL_INVALID_BINARY)
        NAME(CL_INVALID_BUILD_OPTIONS)
        NAME(CL_INVALID_PROGRAM)
        NAME(CL_INVALID_PROGRAM_EXECUTABLE)
        NAME(CL_INVALID_KERNEL_NAME)
        NAME(CL_INVALID_KERNEL)
        NAME(CL_INVALID_ARG_INDEX)
        NAME(CL_INVALID_ARG_VALUE)
        NAME(CL_INVALID_ARG_SIZE)
        NAME(CL_INVALID_KERNEL_ARGS)
        NAME(CL_INVALID_WORK_DIMENSION)
        NAME(CL_INVALID_WORK_GROUP_SIZE)
        NAME(CL_INVALID_WORK_ITEM_SIZE)
        NAME(CL_INVALID_GLOBAL_OFFSET)
        NAME(CL_INVALID_EVENT_WAIT_LIST)
        NAME(CL_INVALID_EVENT)
        NAME(CL_INVALID_OPERATION)
        NAME(CL_INVALID_BUFFER_SIZE)
        NAME(CL_INVALID_GLOBAL_WORK_SIZE)
        NAME(CL_INVALID_PROPERTY)
#undef NAME
        default: return "an error of another name";
    }
}

__attribute__((unused)) static void expect_cl(const char* file, int line, const char* call, cl_int got, cl_int want) {
    if (got != want)
        fail(file, line, "%s gave %s (%d), not %s", call, cl_error_name(got), got, cl_error_name(want));
}

// A call that returns its error and has to succeed.
#define CL(call) expect_cl(__FILE__, __LINE__, #call, (call), CL_SUCCESS)
// A call that returns its error and has to fail in this very way.
#define CL_FAILS(call, error) expect_cl(__FILE__, __LINE__, #call, (call), error)
// The error of the last call that gives it through `&status`.
static cl_int status;
#define MADE(what) expect_cl(__FILE__, __LINE__, what, status, CL_SUCCESS)
#define NOT_MADE(call, error)                                    \
    do {                                                         \
        (void)(call);                                            \
        expect_cl(__FILE__, __LINE__, #call, status, error);     \
    } while (0)

static cl_platform_id platform;
static cl_device_id device;
static cl_context context;
static cl_command_queue queue;

__attribute__((unused)) static void find_device(void) {
    CL(clGetPlatformIDs(1, &platform, NULL));
    CL(clGetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, 1, &device, NULL));
}

__attribute__((unused)) static cl_command_queue make_queue(cl_command_queue_properties properties) {
    cl_queue_properties list[] = {CL_QUEUE_PROPERTIES, properties, 0};
    cl_command_queue made = clCreateCommandQueueWithProperties(context, device, list, &status);
    MADE("clCreateCommandQueueWithProperties");
    return made;
}

// The device, a context and a queue; what every case but the first needs.
__attribute__((unused)) static void open_device(void) {
    find_device();
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    MADE("clCreateContext");
    queue = make_queue(CL_QUEUE_PROFILING_ENABLE);
}

__attribute__((unused)) static void close_device(void) {
    CL(clReleaseCommandQueue(queue));
    CL(clReleaseContext(context));
}

__attribute__((unused)) static cl_program build(const char* source, const char* options) {
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &status);
    MADE("clCreateProgramWithSource");
    cl_int built = clBuildProgram(program, 1, &device, options, NULL, NULL);
    if (built != CL_SUCCESS) {
        char log[1024] = "";
        clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
        FAIL("clBuildProgram gave %s: %s", cl_error_name(built), log);
    }
    return program;
}

// The kernel `name` of a source of its own.
__attribute__((unused)) static cl_kernel build_kernel(const char* source, const char* name) {
    cl_program program = build(source, "-cl-std=CL2.0");
    cl_kernel kernel = clCreateKernel(program, name, &status);
    MADE(name);
    CL(clReleaseProgram(program));
    return kernel;
}

__attribute__((unused)) static cl_mem make_buffer(size_t size, const void* content) {
    cl_mem_flags flags = CL_MEM_READ_WRITE | (content ? CL_MEM_COPY_HOST_PTR : 0);
    cl_mem made = clCreateBuffer(context, flags, size, (void*)content, &status);
    MADE("clCreateBuffer");
    return made;
}

__attribute__((unused)) static void read_buffer(cl_mem from, void* to, size_t size) {
    CL(clEnqueueReadBuffer(queue, from, CL_TRUE, 0, size, to, 0, NULL, NULL));
}

#define SET_ARG(kernel, index, value) CL(clSetKernelArg(kernel, index, sizeof(value), &(value)))

__attribute__((unused)) static void run_1d(cl_command_queue on, cl_kernel kernel, size_t global, size_t local) {
    CL(clEnqueueNDRangeKernel(on, kernel, 1, NULL, &global, local ? &local : NULL, 0, NULL, NULL));
}

__attribute__((unused)) static uint32_t* noise(size_t count, uint32_t seed) {
    uint32_t* words = (uint32_t*)malloc(count * 4);
    if (!words) FAIL("malloc of %zu words", count);
    fill_noise(words, count, seed);
    return words;
}
