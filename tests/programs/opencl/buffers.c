// OpenCL's memory and queues: buffers in all their forms, events, several queues.
#include "cl_cases.h"

static const char* const STEP =
    "kernel void step(global uint* words, uint value) {\n"
    "    size_t i = get_global_id(0);\n"
    "    words[i] = words[i] * 5 + value;\n"
    "}\n";

enum { COUNT = 40960, BYTES = COUNT * 4 };

static void step_on_host(uint32_t* words, size_t count, uint32_t value) {
    for (size_t i = 0; i < count; i++) words[i] = words[i] * 5 + value;
}

static void enqueue_step(cl_command_queue on, cl_kernel kernel, cl_mem words, uint32_t value, cl_uint waits,
                         const cl_event* wait, cl_event* event) {
    size_t global = COUNT;
    SET_ARG(kernel, 0, words);
    SET_ARG(kernel, 1, value);
    CL(clEnqueueNDRangeKernel(on, kernel, 1, NULL, &global, NULL, waits, wait, event));
}

CASE(buffer_write_and_read) {
    open_device();
    uint32_t *want = noise(COUNT, 1), *got = noise(COUNT, 2);
    cl_mem buffer = make_buffer(BYTES, NULL);
    CL(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, BYTES, want, 0, NULL, NULL));
    CL(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, BYTES, got, 0, NULL, NULL));
    SAME(got, want, COUNT);
    // Without waiting, at odd places.
    CL(clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 1001, 2003, want, 0, NULL, NULL));
    CL(clEnqueueReadBuffer(queue, buffer, CL_FALSE, 0, BYTES, got, 0, NULL, NULL));
    CL(clFinish(queue));
    uint8_t* moved = (uint8_t*)noise(COUNT, 1);
    memcpy(moved + 1001, want, 2003);
    SAME((uint8_t*)got, moved, BYTES);
    CL(clReleaseMemObject(buffer));
    close_device();
}

CASE(buffer_copy_and_fill) {
    open_device();
    uint32_t *want = noise(COUNT, 3), *got = noise(COUNT, 4);
    cl_mem first = make_buffer(BYTES, want), second = make_buffer(BYTES, NULL);
    CL(clEnqueueCopyBuffer(queue, first, second, 0, 0, BYTES, 0, NULL, NULL));
    uint32_t word = 0xfeedface;
    uint16_t half = 0x1234;
    uint8_t byte = 0x99;
    uint64_t pair[2] = {0x0123456789abcdefull, 0xfedcba9876543210ull};
    CL(clEnqueueFillBuffer(queue, second, &word, 4, 400, 4000, 0, NULL, NULL));
    CL(clEnqueueFillBuffer(queue, second, &half, 2, 8002, 1000, 0, NULL, NULL));
    CL(clEnqueueFillBuffer(queue, second, &byte, 1, 12001, 77, 0, NULL, NULL));
    CL(clEnqueueFillBuffer(queue, second, pair, 16, 16000, 1600, 0, NULL, NULL));
    CL(clEnqueueCopyBuffer(queue, first, second, 4, 20000, 4444, 0, NULL, NULL));
    read_buffer(second, got, BYTES);
    uint8_t* bytes = (uint8_t*)want;
    memcpy(bytes + 20000, bytes + 4, 4444);
    for (size_t i = 0; i < 4000; i += 4) memcpy(bytes + 400 + i, &word, 4);
    for (size_t i = 0; i < 1000; i += 2) memcpy(bytes + 8002 + i, &half, 2);
    memset(bytes + 12001, byte, 77);
    for (size_t i = 0; i < 1600; i += 16) memcpy(bytes + 16000 + i, pair, 16);
    SAME(got, want, COUNT);
    CL(clReleaseMemObject(first));
    CL(clReleaseMemObject(second));
    close_device();
}

CASE(buffer_rectangles) {
    open_device();
    enum { PITCH = 256, ROWS = 64, SLICE = PITCH * ROWS };
    uint8_t *from = (uint8_t*)noise(SLICE, 5), *got = (uint8_t*)noise(SLICE, 6), *want = (uint8_t*)noise(SLICE, 6);
    cl_mem buffer = make_buffer(SLICE * 4, from);
    // 100 x 20 x 3 bytes out of the middle of the buffer to another place in the host's memory.
    size_t buffer_origin[3] = {30, 7, 1}, host_origin[3] = {5, 9, 0}, region[3] = {100, 20, 3};
    CL(clEnqueueReadBufferRect(queue, buffer, CL_TRUE, buffer_origin, host_origin, region, PITCH, SLICE, PITCH, SLICE,
                               got, 0, NULL, NULL));
    for (size_t z = 0; z < 3; z++)
        for (size_t y = 0; y < 20; y++)
            memcpy(want + z * SLICE + (y + 9) * PITCH + 5, from + (z + 1) * SLICE + (y + 7) * PITCH + 30, 100);
    SAME(got, want, SLICE * 4);
    CL(clReleaseMemObject(buffer));
    close_device();
}

CASE(sub_buffers) {
    open_device();
    cl_kernel kernel = build_kernel(STEP, "step");
    cl_uint alignment = 0;
    CL(clGetDeviceInfo(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof alignment, &alignment, NULL));
    size_t origin = alignment / 8 * 3, count = 1024;
    uint32_t *want = noise(COUNT, 7), *got = noise(COUNT, 8);
    cl_mem whole = make_buffer(BYTES, want);
    cl_buffer_region region = {origin, count * 4};
    cl_mem part = clCreateSubBuffer(whole, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &status);
    MADE("clCreateSubBuffer");
    uint32_t value = 21;
    SET_ARG(kernel, 0, part);
    SET_ARG(kernel, 1, value);
    run_1d(queue, kernel, count, 64);
    step_on_host(want + origin / 4, count, value);
    read_buffer(whole, got, BYTES);
    SAME(got, want, COUNT);
    region.origin = origin + 1;
    NOT_MADE(clCreateSubBuffer(whole, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &status),
             CL_MISALIGNED_SUB_BUFFER_OFFSET);
    region.origin = 0;
    region.size = BYTES + 4;
    NOT_MADE(clCreateSubBuffer(whole, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &status),
             CL_INVALID_BUFFER_SIZE); // what AMD's runtime says; the specification has CL_INVALID_VALUE
    CL(clReleaseMemObject(part));
    CL(clReleaseMemObject(whole));
    CL(clReleaseKernel(kernel));
    close_device();
}

// A map for reading, one for writing, and one that throws away what was there.
static void map_and_compute(cl_mem buffer, uint32_t* want) {
    cl_kernel kernel = build_kernel(STEP, "step");
    uint32_t* mapped =
        (uint32_t*)clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_WRITE, 0, BYTES, 0, NULL, NULL, &status);
    MADE("clEnqueueMapBuffer");
    memcpy(mapped, want, BYTES);
    CL(clEnqueueUnmapMemObject(queue, buffer, mapped, 0, NULL, NULL));
    enqueue_step(queue, kernel, buffer, 5, 0, NULL, NULL);
    step_on_host(want, COUNT, 5);
    mapped = (uint32_t*)clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 4096, 8192, 0, NULL, NULL,
                                           &status);
    MADE("clEnqueueMapBuffer");
    SAME(mapped, want + 1024, 2048);
    for (size_t i = 0; i < 2048; i++) mapped[i] ^= 0x55aa55aa;
    for (size_t i = 0; i < 2048; i++) want[1024 + i] ^= 0x55aa55aa;
    CL(clEnqueueUnmapMemObject(queue, buffer, mapped, 0, NULL, NULL));
    enqueue_step(queue, kernel, buffer, 6, 0, NULL, NULL);
    step_on_host(want, COUNT, 6);
    mapped = (uint32_t*)clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ, 0, BYTES, 0, NULL, NULL, &status);
    MADE("clEnqueueMapBuffer");
    SAME(mapped, want, COUNT);
    CL(clEnqueueUnmapMemObject(queue, buffer, mapped, 0, NULL, NULL));
    CL(clFinish(queue));
    CL(clReleaseKernel(kernel));
}

CASE(mapped_buffers) {
    open_device();
    cl_mem buffer = make_buffer(BYTES, NULL);
    map_and_compute(buffer, noise(COUNT, 9));
    CL(clReleaseMemObject(buffer));
    close_device();
}

CASE(mapped_buffers_of_the_host) {
    open_device();
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, BYTES, NULL, &status);
    MADE("clCreateBuffer with CL_MEM_ALLOC_HOST_PTR");
    map_and_compute(buffer, noise(COUNT, 10));
    CL(clReleaseMemObject(buffer));
    close_device();
}

CASE(use_host_pointer) {
    open_device();
    uint32_t *host = NULL, *want = noise(COUNT, 11);
    if (posix_memalign((void**)&host, 4096, BYTES) != 0) FAIL("posix_memalign");
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, BYTES, host, &status);
    MADE("clCreateBuffer with CL_MEM_USE_HOST_PTR");
    map_and_compute(buffer, want);
    // Mapped, the buffer is the host's own memory.
    void* mapped = clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ, 0, BYTES, 0, NULL, NULL, &status);
    MADE("clEnqueueMapBuffer");
    CHECK(mapped == host, "%p, not %p", mapped, (void*)host);
    SAME(host, want, COUNT);
    CL(clEnqueueUnmapMemObject(queue, buffer, mapped, 0, NULL, NULL));
    CL(clFinish(queue));
    CL(clReleaseMemObject(buffer));
    close_device();
}

CASE(svm_coarse_grain) {
    open_device();
    cl_kernel kernel = build_kernel(STEP, "step");
    uint32_t* want = noise(COUNT, 12);
    uint32_t* memory = (uint32_t*)clSVMAlloc(context, CL_MEM_READ_WRITE, BYTES, 0);
    CHECK(memory, "clSVMAlloc");
    CL(clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_WRITE, memory, BYTES, 0, NULL, NULL));
    memcpy(memory, want, BYTES);
    CL(clEnqueueSVMUnmap(queue, memory, 0, NULL, NULL));
    uint32_t value = 31;
    CL(clSetKernelArgSVMPointer(kernel, 0, memory));
    SET_ARG(kernel, 1, value);
    run_1d(queue, kernel, COUNT, 0);
    CL(clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_READ, memory, BYTES, 0, NULL, NULL));
    step_on_host(want, COUNT, value);
    SAME(memory, want, COUNT);
    CL(clEnqueueSVMUnmap(queue, memory, 0, NULL, NULL));
    CL(clFinish(queue));
    clSVMFree(context, memory);
    CL(clReleaseKernel(kernel));
    close_device();
}

CASE(event_profiling) {
    open_device();
    cl_kernel kernel = build_kernel(STEP, "step");
    cl_mem buffer = make_buffer(BYTES, noise(COUNT, 13));
    cl_event event;
    enqueue_step(queue, kernel, buffer, 1, 0, NULL, &event);
    CL(clWaitForEvents(1, &event));
    cl_int state = -1;
    CL(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    EQUAL(state, CL_COMPLETE);
    cl_ulong times[4];
    for (cl_profiling_info i = 0; i < 4; i++)
        CL(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_QUEUED + i, sizeof times[i], &times[i], NULL));
    CHECK(times[0] <= times[1] && times[1] <= times[2] && times[2] < times[3],
          "queued %llu, submitted %llu, started %llu, ended %llu", (unsigned long long)times[0],
          (unsigned long long)times[1], (unsigned long long)times[2], (unsigned long long)times[3]);
    CL(clReleaseEvent(event));
    cl_command_queue plain = make_queue(0);
    enqueue_step(plain, kernel, buffer, 1, 0, NULL, &event);
    CL(clWaitForEvents(1, &event));
    CL_FAILS(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, 8, times, NULL), CL_PROFILING_INFO_NOT_AVAILABLE);
    CL(clReleaseEvent(event));
    CL(clReleaseCommandQueue(plain));
    CL(clReleaseMemObject(buffer));
    CL(clReleaseKernel(kernel));
    close_device();
}

// Commands wait for an event that the host completes.
CASE(user_event) {
    open_device();
    cl_kernel kernel = build_kernel(STEP, "step");
    uint32_t *want = noise(COUNT, 14), *got = noise(COUNT, 15);
    cl_mem buffer = make_buffer(BYTES, want);
    cl_event gate = clCreateUserEvent(context, &status), event;
    MADE("clCreateUserEvent");
    enqueue_step(queue, kernel, buffer, 3, 1, &gate, &event);
    CL(clFlush(queue));
    cl_int state = -1;
    CL(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    CHECK(state == CL_QUEUED || state == CL_SUBMITTED, "state %d before the event it waits for", state);
    CL(clSetUserEventStatus(gate, CL_COMPLETE));
    CL(clWaitForEvents(1, &event));
    step_on_host(want, COUNT, 3);
    read_buffer(buffer, got, BYTES);
    SAME(got, want, COUNT);
    CL(clReleaseEvent(gate));
    CL(clReleaseEvent(event));
    CL(clReleaseMemObject(buffer));
    CL(clReleaseKernel(kernel));
    close_device();
}

static volatile int called, called_with;

static void CL_CALLBACK note(cl_event event, cl_int state, void* data) {
    (void)event;
    called_with = state;
    __atomic_fetch_add(&called, *(int*)data, __ATOMIC_SEQ_CST);
}

CASE(event_callback) {
    open_device();
    cl_kernel kernel = build_kernel(STEP, "step");
    cl_mem buffer = make_buffer(BYTES, NULL);
    int by = 5;
    cl_event event;
    enqueue_step(queue, kernel, buffer, 1, 0, NULL, &event);
    CL(clSetEventCallback(event, CL_COMPLETE, note, &by));
    CL(clFinish(queue));
    while (__atomic_load_n(&called, __ATOMIC_SEQ_CST) == 0) usleep(100);
    EQUAL(called, 5);
    EQUAL(called_with, CL_COMPLETE);
    CL(clReleaseEvent(event));
    CL(clReleaseMemObject(buffer));
    CL(clReleaseKernel(kernel));
    close_device();
}

// Order comes from events alone.
CASE(out_of_order_queue) {
    open_device();
    cl_kernel kernel = build_kernel(STEP, "step");
    cl_command_queue free_queue = make_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    uint32_t *want = noise(COUNT, 16), *got = noise(COUNT, 17);
    cl_mem buffer = make_buffer(BYTES, want);
    cl_event events[20];
    for (uint32_t i = 0; i < 20; i++) {
        enqueue_step(free_queue, kernel, buffer, i, i > 0, i > 0 ? &events[i - 1] : NULL, &events[i]);
        step_on_host(want, COUNT, i);
    }
    CL(clEnqueueReadBuffer(free_queue, buffer, CL_TRUE, 0, BYTES, got, 1, &events[19], NULL));
    SAME(got, want, COUNT);
    CL(clEnqueueBarrierWithWaitList(free_queue, 0, NULL, NULL));
    CL(clFinish(free_queue));
    for (int i = 0; i < 20; i++) CL(clReleaseEvent(events[i]));
    CL(clReleaseCommandQueue(free_queue));
    CL(clReleaseMemObject(buffer));
    CL(clReleaseKernel(kernel));
    close_device();
}

// Queues take turns on one buffer, by events; and each works on one of its own.
CASE(several_queues) {
    open_device();
    enum { QUEUES = 4 };
    cl_kernel kernel = build_kernel(STEP, "step");
    cl_command_queue queues[QUEUES];
    cl_mem own[QUEUES];
    uint32_t *shared = noise(COUNT, 18), *got = noise(COUNT, 19), *wants[QUEUES];
    cl_mem buffer = make_buffer(BYTES, shared);
    for (int i = 0; i < QUEUES; i++) {
        queues[i] = make_queue(0);
        wants[i] = noise(COUNT, 20 + i);
        own[i] = make_buffer(BYTES, wants[i]);
    }
    cl_event last = NULL, next;
    for (uint32_t i = 0; i < 5 * QUEUES; i++) {
        enqueue_step(queues[i % QUEUES], kernel, buffer, i, last != NULL, last ? &last : NULL, &next);
        CL(clFlush(queues[i % QUEUES]));
        step_on_host(shared, COUNT, i);
        if (last) CL(clReleaseEvent(last));
        last = next;
        enqueue_step(queues[i % QUEUES], kernel, own[i % QUEUES], i, 0, NULL, NULL);
        step_on_host(wants[i % QUEUES], COUNT, i);
    }
    for (int i = 0; i < QUEUES; i++) CL(clFinish(queues[i]));
    read_buffer(buffer, got, BYTES);
    SAME(got, shared, COUNT);
    for (int i = 0; i < QUEUES; i++) {
        read_buffer(own[i], got, BYTES);
        SAME(got, wants[i], COUNT);
        CL(clReleaseMemObject(own[i]));
        CL(clReleaseCommandQueue(queues[i]));
    }
    CL(clReleaseEvent(last));
    CL(clReleaseMemObject(buffer));
    CL(clReleaseKernel(kernel));
    close_device();
}

CASE(buffer_errors) {
    open_device();
    uint32_t word = 0;
    cl_ulong largest = 0;
    CL(clGetDeviceInfo(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof largest, &largest, NULL));
    NOT_MADE(clCreateBuffer(context, CL_MEM_READ_WRITE, 0, NULL, &status), CL_INVALID_BUFFER_SIZE);
    NOT_MADE(clCreateBuffer(context, CL_MEM_READ_WRITE, largest + (1ull << 40), NULL, &status), CL_INVALID_BUFFER_SIZE);
    NOT_MADE(clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, 16, NULL, &status), CL_INVALID_VALUE);
    NOT_MADE(clCreateBuffer(NULL, CL_MEM_READ_WRITE, 16, NULL, &status), CL_INVALID_CONTEXT);
    cl_mem buffer = make_buffer(16, NULL);
    CL_FAILS(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 8, 16, &word, 0, NULL, NULL), CL_INVALID_VALUE);
    CL_FAILS(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 4, NULL, 0, NULL, NULL), CL_INVALID_VALUE);
    CL_FAILS(clEnqueueCopyBuffer(queue, buffer, buffer, 0, 4, 8, 0, NULL, NULL), CL_MEM_COPY_OVERLAP);
    CL_FAILS(clEnqueueReadBuffer(NULL, buffer, CL_TRUE, 0, 4, &word, 0, NULL, NULL), CL_INVALID_COMMAND_QUEUE);
    CL_FAILS(clEnqueueReadBuffer(queue, NULL, CL_TRUE, 0, 4, &word, 0, NULL, NULL), CL_INVALID_MEM_OBJECT);
    CL_FAILS(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 4, &word, 1, NULL, NULL), CL_INVALID_EVENT_WAIT_LIST);
    CL(clReleaseMemObject(buffer));
    close_device();
}
