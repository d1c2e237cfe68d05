// Mistakes: each is answered by its own error code, and the next call works.
#include "hip_cases.h"

#include <cassert>

#include <sys/resource.h>

using Words = std::vector<uint32_t>;

__global__ void fill(uint32_t* words, uint32_t value) { words[blockIdx.x * blockDim.x + threadIdx.x] = value; }

__global__ void with_local(uint32_t* words) {
    extern __shared__ uint32_t tile[];
    tile[threadIdx.x] = threadIdx.x;
    __syncthreads();
    words[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

// Ends without a core file, which would take longer than all the rest.
static void no_core_file() {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
}

// The device works, whatever was refused before.
static void expect_work() {
    Buffer<uint32_t> words(256);
    fill<<<1, 256>>>(words.data, 0x600d);
    FINISHED();
    SAME_AS(words.read(), Words(256, 0x600d));
}

CASE(error_bad_pointers) {
    uint32_t on_stack[4] = {};
    Buffer<uint32_t> words(16);
    HIP_FAILS(hipFree(on_stack), hipErrorInvalidValue);
    HIP_FAILS(hipHostFree(on_stack), hipErrorInvalidValue);
    HIP_FAILS(hipMemcpy(nullptr, on_stack, 16, hipMemcpyHostToDevice), hipErrorInvalidValue);
    HIP_FAILS(hipMemcpy(words.data, nullptr, 16, hipMemcpyHostToDevice), hipErrorInvalidValue);
    HIP_FAILS(hipMemset(nullptr, 0, 16), hipErrorInvalidValue);
    HIP_FAILS(hipMalloc(nullptr, 16), hipErrorInvalidValue);
    void* device = nullptr;
    HIP_FAILS(hipHostGetDevicePointer(&device, on_stack, 0), hipErrorInvalidValue);
    hipPointerAttribute_t attributes;
    // HIP 6 tells of memory that it does not know that it does not know it.
    if (HIP_VERSION_MAJOR < 6) HIP_FAILS(hipPointerGetAttributes(&attributes, on_stack), hipErrorInvalidValue);
    HIP_FAILS(hipHostUnregister(on_stack), hipErrorHostMemoryNotRegistered);
    expect_work();
}

CASE(error_bad_copies) {
    Words host(64);
    Buffer<uint32_t> words(64);
    HIP_FAILS(hipMemset(words.data, 0, 257), hipErrorInvalidValue);
    HIP_FAILS(hipMemcpy(words.data, host.data(), 260, hipMemcpyHostToDevice), hipErrorInvalidValue);
    HIP_FAILS(hipMemcpy2D(words.data, 8, host.data(), 16, 16, 4, hipMemcpyHostToDevice), hipErrorInvalidPitchValue);
    expect_work();
}

CASE(error_out_of_memory) {
    size_t available = 0, total = 0;
    void* device = nullptr;
    HIP(hipMemGetInfo(&available, &total));
    HIP_FAILS(hipMalloc(&device, total * 2), hipErrorOutOfMemory);
    HIP_FAILS(hipMalloc(&device, size_t(1) << 46), hipErrorOutOfMemory);
    HIP_FAILS(hipMalloc(&device, ~size_t(0)), hipErrorOutOfMemory);
    expect_work();
}

// The memory of the device taken up, piece by piece: the last piece is refused, and all can be had again.
CASE(error_out_of_memory_piece_by_piece) {
    const size_t piece = 64 << 20;
    for (int round = 0; round < 2; round++) {
        std::vector<void*> pieces;
        hipError_t error;
        void* device = nullptr;
        while ((error = hipMalloc(&device, piece)) == hipSuccess && pieces.size() < 4096) pieces.push_back(device);
        (void)hipGetLastError();
        CHECK(error == hipErrorOutOfMemory, "%s after %zu pieces", hipGetErrorName(error), pieces.size());
        CHECK(pieces.size() > 1, "%zu pieces", pieces.size());
        for (void* one : pieces) HIP(hipFree(one));
    }
    expect_work();
}

// How a shape that no launch can have is answered; HIP 7 does it as CUDA does.
static const hipError_t BAD_SHAPE = HIP_VERSION_MAJOR >= 7 ? hipErrorInvalidConfiguration : hipErrorInvalidValue;

CASE(error_invalid_block) {
    Buffer<uint32_t> words(4096);
    fill<<<1, 1025>>>(words.data, 1);
    HIP_FAILS(hipGetLastError(), BAD_SHAPE);
    fill<<<1, dim3(32, 32, 2)>>>(words.data, 1);
    HIP_FAILS(hipGetLastError(), BAD_SHAPE);
    fill<<<1, 0>>>(words.data, 1);
    HIP_FAILS(hipGetLastError(), BAD_SHAPE);
    expect_work();
}

CASE(error_invalid_grid) {
    Buffer<uint32_t> words(256);
    fill<<<0, 256>>>(words.data, 1);
    HIP_FAILS(hipGetLastError(), BAD_SHAPE);
    fill<<<dim3(1u << 31, 2, 2), 256>>>(words.data, 1);
    HIP_FAILS(hipGetLastError(), hipErrorInvalidConfiguration);
    expect_work();
}

CASE(error_too_much_lds) {
    Buffer<uint32_t> words(256);
    with_local<<<1, 256, GROUP_LDS + 1>>>(words.data);
    HIP_FAILS(hipGetLastError(), hipErrorInvalidValue);
    with_local<<<1, 256, GROUP_LDS>>>(words.data);
    FINISHED();
    EQUAL(words.read()[0], 255);
}

static int no_symbol;

static void launch_a_missing_symbol() {
    no_core_file();
    hipError_t error = hipLaunchKernel((const void*)&no_symbol, dim3(1), dim3(1), nullptr, 0, nullptr);
    _exit(error == hipErrorInvalidDeviceFunction ? 3 : 4);
}

CASE(error_missing_symbol) {
    char said[8192];
    int status = in_child(launch_a_missing_symbol, said, sizeof said);
    // HIP 7.2 reads what it has not found.
    bool crashed = WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
    bool refused = WIFEXITED(status) && WEXITSTATUS(status) == 3;
    CHECK(HIP_VERSION_MAJOR < 7 ? refused : crashed, "status %#x: %s", status, said);
    void* address = nullptr;
    size_t size = 0;
    uint32_t word = 0;
    HIP_FAILS(hipGetSymbolAddress(&address, &no_symbol), hipErrorInvalidSymbol);
    HIP_FAILS(hipGetSymbolSize(&size, &no_symbol), hipErrorInvalidSymbol);
    HIP_FAILS(hipMemcpyToSymbol(&no_symbol, &word, 4, 0, hipMemcpyHostToDevice), hipErrorInvalidSymbol);
    expect_work();
}

CASE(error_invalid_device) {
    int device = -1;
    hipDeviceProp_t properties;
    HIP_FAILS(hipSetDevice(1), hipErrorInvalidDevice);
    HIP_FAILS(hipSetDevice(-1), hipErrorInvalidDevice);
    HIP_FAILS(hipGetDeviceProperties(&properties, 7), hipErrorInvalidDevice);
    HIP(hipGetDevice(&device));
    EQUAL(device, 0);
    expect_work();
}

CASE(error_invalid_handles) {
    HIP_FAILS(hipEventRecord(nullptr, nullptr), hipErrorInvalidHandle);
    HIP_FAILS(hipEventQuery(nullptr), hipErrorInvalidHandle);
    HIP_FAILS(hipStreamWaitEvent(nullptr, nullptr, 0), hipErrorInvalidHandle);
    HIP_FAILS(hipModuleUnload(nullptr), hipErrorInvalidResourceHandle);
    HIP_FAILS(hipStreamCreateWithFlags(nullptr, 0), hipErrorInvalidValue);
    hipStream_t stream;
    HIP_FAILS(hipStreamCreateWithFlags(&stream, 0x40), hipErrorInvalidValue);
    expect_work();
}

CASE(error_is_remembered_once) {
    HIP(hipGetLastError());
    EQUAL(hipSetDevice(99), hipErrorInvalidDevice);
    EQUAL(hipPeekAtLastError(), hipErrorInvalidDevice);
    EQUAL(hipGetLastError(), hipErrorInvalidDevice);
    EQUAL(hipGetLastError(), hipSuccess);
    CHECK(strcmp(hipGetErrorName(hipErrorInvalidDevice), "hipErrorInvalidDevice") == 0, "%s",
          hipGetErrorName(hipErrorInvalidDevice));
    expect_work();
}

static void write_far_away() {
    no_core_file();
    fill<<<1, 64>>>((uint32_t*)0x7e0000000000, 1);
    hipError_t error = hipDeviceSynchronize();
    fprintf(stderr, "synchronize gave %s\n", hipGetErrorName(error));
    _exit(error == hipSuccess ? 0 : 3);
}

// Until HIP 6 the runtime tells of a fault and aborts the process, as it does on hardware. HIP 7 gives the program an error.
static void expect_fault(int status, const char* said, const char* text, const char* error) {
    if (HIP_VERSION_MAJOR < 7) {
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %#x: %s", status, said);
        CHECK(strstr(said, text), "%s", said);
    } else {
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3, "status %#x: %s", status, said);
        CHECK(strstr(said, error), "%s", said);
    }
}

CASE(illegal_address_ends_the_process) {
    char said[8192];
    int status = in_child(write_far_away, said, sizeof said);
    expect_fault(status, said, "Memory access fault by GPU node", "synchronize gave hipErrorIllegalAddress");
    if (HIP_VERSION_MAJOR < 7) CHECK(strstr(said, "0x7e0000000000"), "%s", said);
    expect_work();
}

static void write_after_free() {
    no_core_file();
    uint32_t* words = nullptr;
    HIP(hipMalloc((void**)&words, 64 << 20));
    HIP(hipFree(words));
    fill<<<1, 64>>>(words + (32 << 20) / 4, 1);
    hipError_t error = hipDeviceSynchronize();
    fprintf(stderr, "synchronize gave %s\n", hipGetErrorName(error));
    _exit(error == hipSuccess ? 0 : 3);
}

CASE(freed_memory_is_gone) {
    char said[8192];
    int status = in_child(write_after_free, said, sizeof said);
    expect_fault(status, said, "Memory access fault by GPU node", "synchronize gave hipErrorIllegalAddress");
}

__global__ void asserting_kernel(const uint32_t* words) { assert(words[threadIdx.x] != 40 && "forty is too many"); }

static void fail_an_assertion() {
    no_core_file();
    Words words(64);
    for (uint32_t i = 0; i < 64; i++) words[i] = i;
    Buffer<uint32_t> device(words);
    asserting_kernel<<<1, 64>>>(device.data);
    hipError_t error = hipDeviceSynchronize();
    fprintf(stderr, "synchronize gave %s\n", hipGetErrorName(error));
    _exit(error == hipSuccess ? 0 : 3);
}

CASE(device_assert_that_fails) {
    char said[8192];
    int status = in_child(fail_an_assertion, said, sizeof said);
    expect_fault(status, said, "forty is too many", "synchronize gave hipErrorLaunchFailure");
    CHECK(strstr(said, "forty is too many"), "%s", said);
    CHECK(strstr(said, "errors.hip:") && strstr(said, "asserting_kernel"), "%s", said);
    // One thread of 64 fails it, and says so once.
    CHECK(!strstr(strstr(said, "forty is too many") + 1, "forty is too many"), "%s", said);
}

CASE(device_assert_that_holds) {
    Words words(64, 1);
    Buffer<uint32_t> device(words);
    asserting_kernel<<<1, 64>>>(device.data);
    FINISHED();
}

__global__ void trapping_kernel() { __builtin_trap(); }

static void run_into_a_trap() {
    no_core_file();
    trapping_kernel<<<1, 1>>>();
    hipError_t error = hipDeviceSynchronize();
    fprintf(stderr, "synchronize gave %s\n", hipGetErrorName(error));
    _exit(error == hipSuccess ? 0 : 3);
}

CASE(trap_ends_the_process) {
    char said[8192];
    int status = in_child(run_into_a_trap, said, sizeof said);
    expect_fault(status, said, "HSA_STATUS_ERROR_EXCEPTION", "synchronize gave hipErrorLaunchFailure");
}
