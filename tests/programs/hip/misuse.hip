// Mistakes with launches, streams, events and memory: each has its own answer, and none changes what was there.
#include "hip_cases.h"

#include <thread>

using Words = std::vector<uint32_t>;

__global__ void stamp(uint32_t* words, uint32_t value) { words[blockIdx.x * blockDim.x + threadIdx.x] = value; }

// How a shape that no launch can have is answered; HIP 7 does it as CUDA does.
static const hipError_t BAD_SHAPE = HIP_VERSION_MAJOR >= 7 ? hipErrorInvalidConfiguration : hipErrorInvalidValue;

static void expect_work() {
    Buffer<uint32_t> words(512);
    stamp<<<2, 256>>>(words.data, 0xfeed);
    FINISHED();
    SAME_AS(words.read(), Words(512, 0xfeed));
}

// A copy that would leave its allocation is refused as a whole: not a byte of it arrives.
CASE(error_copies_past_the_end) {
    Words before = noise(1024, 1), host = noise(2048, 2);
    Buffer<uint32_t> words(before);
    HIP_FAILS(hipMemcpy(words.data + 1000, host.data(), 100 * 4, hipMemcpyHostToDevice), hipErrorInvalidValue);
    HIP_FAILS(hipMemcpyAsync(words.data, host.data(), 1025 * 4, hipMemcpyHostToDevice, nullptr), hipErrorInvalidValue);
    HIP_FAILS(hipMemset(words.data + 1, 0xff, 4096), hipErrorInvalidValue);
    HIP_FAILS(hipMemsetD32((hipDeviceptr_t)words.data, 1, 1025), hipErrorInvalidValue);
    HIP(hipDeviceSynchronize());
    SAME_AS(words.read(), before);
    expect_work();
}

CASE(error_pitches) {
    Words before = noise(1024, 3), host = noise(1024, 4);
    Buffer<uint32_t> words(before);
    void* memory = nullptr;
    size_t pitch = 0;
    HIP_FAILS(hipMemcpy2D(words.data, 64, host.data(), 32, 64, 4, hipMemcpyHostToDevice), hipErrorInvalidPitchValue);
    HIP_FAILS(hipMemcpy2D(words.data, 64, host.data(), 64, 64, 65, hipMemcpyHostToDevice), hipErrorInvalidValue);
    HIP_FAILS(hipMallocPitch(nullptr, &pitch, 16, 16), hipErrorInvalidValue);
    HIP_FAILS(hipMallocPitch(&memory, nullptr, 16, 16), hipErrorInvalidValue);
    HIP_FAILS(hipMemcpy3D(nullptr), hipErrorInvalidValue);
    // No rows and no columns are no mistake, and nothing.
    HIP(hipMemcpy2D(words.data, 64, host.data(), 64, 0, 4, hipMemcpyHostToDevice));
    HIP(hipMemcpy2D(words.data, 64, host.data(), 64, 64, 0, hipMemcpyHostToDevice));
    SAME_AS(words.read(), before);
    expect_work();
}

static __device__ uint32_t few_words[16];

CASE(error_symbol_ranges) {
    Words words = noise(32, 7), to(16), want(words.begin(), words.begin() + 16);
    HIP(hipMemcpyToSymbol(HIP_SYMBOL(few_words), words.data(), 64, 0, hipMemcpyHostToDevice));
    HIP_FAILS(hipMemcpyToSymbol(HIP_SYMBOL(few_words), words.data(), 68, 0, hipMemcpyHostToDevice),
              hipErrorInvalidValue);
    HIP_FAILS(hipMemcpyToSymbol(HIP_SYMBOL(few_words), words.data(), 64, 4, hipMemcpyHostToDevice),
              hipErrorInvalidValue);
    HIP_FAILS(hipMemcpyFromSymbol(to.data(), HIP_SYMBOL(few_words), 4, 64, hipMemcpyDeviceToHost),
              hipErrorInvalidValue);
    HIP(hipMemcpyFromSymbol(to.data(), HIP_SYMBOL(few_words), 64, 0, hipMemcpyDeviceToHost));
    SAME_AS(to, want);
    expect_work();
}

CASE(error_double_free) {
    uint32_t *memory = nullptr, *host = nullptr;
    HIP(hipMalloc((void**)&memory, 4096));
    HIP(hipHostMalloc((void**)&host, 4096, hipHostMallocDefault));
    HIP(hipFree(memory));
    HIP_FAILS(hipFree(memory), hipErrorInvalidValue);
    HIP(hipHostFree(host));
    HIP_FAILS(hipHostFree(host), hipErrorInvalidValue);
    HIP(hipFree(nullptr));
    HIP(hipHostFree(nullptr));
    expect_work();
}

CASE(error_registering) {
    Words host(4096, 1);
    void* device = nullptr;
    HIP(hipHostRegister(host.data(), host.size() * 4, hipHostRegisterDefault));
    HIP(hipHostUnregister(host.data()));
    HIP_FAILS(hipHostUnregister(host.data()), hipErrorHostMemoryNotRegistered);
    HIP_FAILS(hipHostRegister(nullptr, 4096, hipHostRegisterDefault), hipErrorInvalidValue);
    HIP_FAILS(hipHostRegister(host.data(), 0, hipHostRegisterDefault), hipErrorInvalidValue);
    HIP_FAILS(hipHostMalloc(&device, 4096, hipHostMallocCoherent | hipHostMallocNonCoherent),
              hipErrorInvalidValue);
    expect_work();
}

CASE(error_events) {
    hipEvent_t first, untimed;
    float time = 0;
    HIP(hipEventCreate(&first));
    HIP(hipEventCreateWithFlags(&untimed, hipEventDisableTiming));
    HIP_FAILS(hipEventCreate(nullptr), hipErrorInvalidValue);
    HIP_FAILS(hipEventCreateWithFlags(&untimed, 0x100), hipErrorInvalidValue);
    HIP_FAILS(hipEventElapsedTime(&time, first, first), hipErrorInvalidHandle); // not recorded yet
    HIP(hipEventRecord(first, nullptr));
    HIP(hipEventRecord(untimed, nullptr));
    HIP(hipDeviceSynchronize());
    HIP_FAILS(hipEventElapsedTime(&time, first, untimed), hipErrorInvalidHandle);
    HIP_FAILS(hipEventElapsedTime(nullptr, first, first), hipErrorInvalidValue);
    HIP_FAILS(hipEventDestroy(nullptr), hipErrorInvalidHandle);
    HIP(hipEventDestroy(first));
    HIP(hipEventDestroy(untimed));
    expect_work();
}

static void never_called(hipStream_t, hipError_t, void*) { FAIL("a callback that was refused is called"); }

CASE(error_streams) {
    hipStream_t stream;
    int priority = 0;
    HIP(hipStreamCreate(&stream));
    HIP_FAILS(hipStreamAddCallback(stream, nullptr, nullptr, 0), hipErrorInvalidValue);
    HIP_FAILS(hipStreamAddCallback(stream, never_called, nullptr, 1), hipErrorInvalidValue);
    HIP_FAILS(hipStreamGetPriority(stream, nullptr), hipErrorInvalidValue);
    HIP_FAILS(hipStreamGetFlags(stream, nullptr), hipErrorInvalidValue);
    HIP(hipStreamGetPriority(stream, &priority));
    EQUAL(priority, 0);
    HIP_FAILS(hipStreamDestroy(nullptr), hipErrorInvalidResourceHandle);
    HIP(hipStreamDestroy(stream));
    expect_work();
}

// A launch that is refused leaves no work behind: what comes next on the stream runs as if it had not been.
CASE(error_between_launches) {
    Buffer<uint32_t> words(Words(256, 1));
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    for (uint32_t round = 0; round < 5; round++) {
        stamp<<<1, 256, 0, stream>>>(words.data, round);
        LAUNCHED();
        stamp<<<1, 2048, 0, stream>>>(words.data, 1000 + round);
        HIP_FAILS(hipGetLastError(), BAD_SHAPE);
        HIP(hipStreamSynchronize(stream));
        SAME_AS(words.read(), Words(256, round));
    }
    HIP(hipStreamDestroy(stream));
}

// Each thread has a last error of its own.
CASE(error_of_another_thread) {
    (void)hipGetLastError();
    EQUAL(hipSetDevice(99), hipErrorInvalidDevice);
    hipError_t seen = hipErrorUnknown;
    std::thread([&] { seen = hipGetLastError(); }).join();
    EQUAL(seen, hipSuccess);
    EQUAL(hipGetLastError(), hipErrorInvalidDevice);
    expect_work();
}

CASE(error_names_and_texts) {
    struct { hipError_t error; const char* name; } errors[] = {
        {hipSuccess, "hipSuccess"},
        {hipErrorInvalidValue, "hipErrorInvalidValue"},
        {hipErrorOutOfMemory, "hipErrorOutOfMemory"},
        {hipErrorNotReady, "hipErrorNotReady"},
        {hipErrorIllegalAddress, "hipErrorIllegalAddress"},
        {hipErrorLaunchFailure, "hipErrorLaunchFailure"},
        {hipErrorStreamCaptureUnsupported, "hipErrorStreamCaptureUnsupported"},
    };
    for (auto& one : errors) {
        CHECK(strcmp(hipGetErrorName(one.error), one.name) == 0, "%s, not %s", hipGetErrorName(one.error), one.name);
        CHECK(strlen(hipGetErrorString(one.error)) > 2, "%s has the text \"%s\"", one.name,
              hipGetErrorString(one.error));
    }
}

// Of the device's limits, each is a launch that is taken and one more that is not.
CASE(error_one_past_the_limits) {
    hipDeviceProp_t limits;
    HIP(hipGetDeviceProperties(&limits, 0));
    Buffer<uint32_t> words(limits.maxThreadsPerBlock);
    stamp<<<1, limits.maxThreadsPerBlock>>>(words.data, 6);
    FINISHED();
    SAME_AS(words.read(), Words(limits.maxThreadsPerBlock, 6));
    stamp<<<1, limits.maxThreadsPerBlock + 1>>>(words.data, 7);
    HIP_FAILS(hipGetLastError(), BAD_SHAPE);
    stamp<<<1, dim3(1, 1, limits.maxThreadsDim[2] + 1)>>>(words.data, 7);
    HIP_FAILS(hipGetLastError(), BAD_SHAPE);
    stamp<<<1, 32, limits.sharedMemPerBlock + 4>>>(words.data, 7);
    HIP_FAILS(hipGetLastError(), hipErrorInvalidValue);
    HIP(hipDeviceSynchronize());
    SAME_AS(words.read(), Words(limits.maxThreadsPerBlock, 6));
}
