// Launches in their other forms, and what the runtime tells and refuses about them.
#include "hip_cases.h"

#include <hip/hip_cooperative_groups.h>
#include <hip/hip_ext.h>
#include <hip/hiprtc.h>

#include <algorithm>
#include <string>

namespace cg = cooperative_groups;
using Words = std::vector<uint32_t>;

static const uint32_t COUNT = 8009;
static const dim3 GRID((COUNT + 255) / 256), BLOCK(256);

__global__ void step(uint32_t* words, uint32_t count, uint32_t value) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) words[i] = words[i] * 5 + value;
}

static Words stepped(Words words, std::initializer_list<uint32_t> values) {
    for (uint32_t value : values)
        for (uint32_t& word : words) word = word * 5 + value;
    return words;
}

CASE(launch_by_address) {
    Words from = noise(COUNT, 1);
    Buffer<uint32_t> words(from);
    uint32_t count = COUNT, value = 11;
    void* arguments[] = {&words.data, &count, &value};
    HIP(hipLaunchKernel((const void*)step, GRID, BLOCK, arguments, 0, nullptr));
    hipLaunchKernelGGL(step, GRID, BLOCK, 0, nullptr, words.data, count, 12u);
    FINISHED();
    SAME_AS(words.read(), stepped(from, {11, 12}));
}

// A launch with two events of its own, which are around the kernel alone.
CASE(launch_with_its_own_events) {
    Words from = noise(COUNT, 2);
    Buffer<uint32_t> words(from);
    hipStream_t stream;
    hipEvent_t start, stop;
    HIP(hipStreamCreate(&stream));
    HIP(hipEventCreate(&start));
    HIP(hipEventCreate(&stop));
    hipExtLaunchKernelGGL(step, GRID, BLOCK, 0, stream, start, stop, 0, words.data, COUNT, 9u);
    LAUNCHED();
    HIP(hipEventSynchronize(stop));
    float time = -1;
    HIP(hipEventElapsedTime(&time, start, stop));
    CHECK(time > 0, "%f ms", time);
    SAME_AS(words.read(), stepped(from, {9}));
    HIP(hipEventDestroy(start));
    HIP(hipEventDestroy(stop));
    HIP(hipStreamDestroy(stream));
}

// An event that is recorded again stands for the later record.
CASE(event_recorded_again) {
    Words from = noise(COUNT, 3);
    Buffer<uint32_t> words(from);
    hipStream_t first, second;
    hipEvent_t event;
    HIP(hipStreamCreateWithFlags(&first, hipStreamNonBlocking));
    HIP(hipStreamCreateWithFlags(&second, hipStreamNonBlocking));
    HIP(hipEventCreateWithFlags(&event, hipEventDisableTiming));
    for (uint32_t round = 0; round < 10; round++) {
        step<<<GRID, BLOCK, 0, first>>>(words.data, COUNT, round);
        HIP(hipEventRecord(event, first));
        HIP(hipStreamWaitEvent(second, event, 0));
        step<<<GRID, BLOCK, 0, second>>>(words.data, COUNT, round + 100);
        HIP(hipEventRecord(event, second));
        HIP(hipStreamWaitEvent(first, event, 0));
        from = stepped(from, {round, round + 100});
    }
    HIP(hipEventSynchronize(event));
    SAME_AS(words.read(), from);
    HIP(hipEventDestroy(event));
    HIP(hipStreamDestroy(first));
    HIP(hipStreamDestroy(second));
}

CASE(event_without_timing_has_no_time) {
    hipEvent_t timed, untimed;
    HIP(hipEventCreate(&timed));
    HIP(hipEventCreateWithFlags(&untimed, hipEventDisableTiming));
    HIP(hipEventRecord(timed, nullptr));
    HIP(hipEventRecord(untimed, nullptr));
    HIP(hipDeviceSynchronize());
    float time = 0;
    HIP_FAILS(hipEventElapsedTime(&time, timed, untimed), hipErrorInvalidHandle);
    HIP_FAILS(hipEventElapsedTime(nullptr, timed, timed), hipErrorInvalidValue);
    HIP_FAILS(hipEventCreateWithFlags(&timed, 0x8000000), hipErrorInvalidValue);
    HIP(hipEventDestroy(timed));
    HIP(hipEventDestroy(untimed));
}

CASE(stream_tells_its_flags_and_priority) {
    int least = 0, greatest = 0, priority = 99;
    unsigned flags = 99;
    HIP(hipDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK(least >= greatest, "%d to %d", least, greatest);
    for (int wanted = greatest; wanted <= least; wanted++) {
        hipStream_t stream;
        HIP(hipStreamCreateWithPriority(&stream, hipStreamNonBlocking, wanted));
        HIP(hipStreamGetPriority(stream, &priority));
        HIP(hipStreamGetFlags(stream, &flags));
        EQUAL(priority, wanted);
        EQUAL(flags, hipStreamNonBlocking);
        HIP(hipStreamDestroy(stream));
    }
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    HIP(hipStreamGetFlags(stream, &flags));
    EQUAL(flags, hipStreamDefault);
    HIP(hipStreamDestroy(stream));
}

// Streams with masks of compute units: each tells its mask and computes with it.
CASE(stream_cu_masks_of_several_streams) {
    Words from = noise(COUNT, 4);
    hipDeviceProp_t properties;
    HIP(hipGetDeviceProperties(&properties, 0));
    const uint32_t masks[] = {0x3, 0xc, 0xf};
    for (uint32_t mask : masks) {
        if (properties.multiProcessorCount < 4 && mask != 0x3) continue;
        Buffer<uint32_t> words(from);
        hipStream_t stream;
        uint32_t got[4] = {};
        HIP(hipExtStreamCreateWithCUMask(&stream, 1, &mask));
        HIP(hipExtStreamGetCUMask(stream, 4, got));
        EQUAL(got[0], mask);
        for (uint32_t i = 0; i < 20; i++) step<<<GRID, BLOCK, 0, stream>>>(words.data, COUNT, mask + i);
        LAUNCHED();
        HIP(hipStreamSynchronize(stream));
        Words want = from;
        for (uint32_t i = 0; i < 20; i++) want = stepped(want, {mask + i});
        SAME_AS(words.read(), want);
        // HIP 7.2 lets the queue of such a stream go where its last reference goes, at times in ROCr's thread of signal
        // handlers, which then waits for itself.
        if (HIP_VERSION_MAJOR < 7) HIP(hipStreamDestroy(stream));
    }
}

struct Order {
    uint32_t calls = 0, wrong = 0;
};

struct Call {
    Order* order;
    uint32_t number;
};

// Callbacks of a stream are called in its order, and none is left out.
CASE(stream_callbacks_in_order) {
    const uint32_t count = 50;
    Order order;
    Call calls[count];
    Buffer<uint32_t> words(noise(COUNT, 5));
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    for (uint32_t i = 0; i < count; i++) {
        calls[i] = {&order, i};
        if (i % 5 == 0) step<<<GRID, BLOCK, 0, stream>>>(words.data, COUNT, i);
        auto callback = [](hipStream_t, hipError_t status, void* data) {
            auto* call = (Call*)data;
            if (status != hipSuccess || call->order->calls != call->number) call->order->wrong++;
            call->order->calls++;
        };
        HIP(hipStreamAddCallback(stream, callback, &calls[i], 0));
    }
    HIP(hipStreamSynchronize(stream));
    EQUAL(order.calls, count);
    EQUAL(order.wrong, 0);
    HIP(hipStreamDestroy(stream));
}

// Rounds that read what other blocks wrote in the round before.
__global__ void rotate(uint32_t* a, uint32_t* b, uint32_t count, uint32_t rounds) {
    cg::grid_group grid = cg::this_grid();
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t i = grid.thread_rank(); i < count; i += grid.size()) b[i] = a[(i + 1001) % count] + round;
        grid.sync();
        uint32_t* swap = a;
        a = b;
        b = swap;
    }
}

CASE(cooperative_launch_of_a_full_device) {
    Words want = noise(COUNT, 6);
    Buffer<uint32_t> a(want), b(COUNT);
    hipDeviceProp_t properties;
    int blocks = 0;
    HIP(hipGetDeviceProperties(&properties, 0));
    HIP(hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, rotate, 64, 0));
    uint32_t count = COUNT, rounds = 6;
    void* arguments[] = {&a.data, &b.data, &count, &rounds};
    dim3 grid(std::min(blocks * properties.multiProcessorCount, 128));
    HIP(hipLaunchCooperativeKernel((const void*)rotate, grid, dim3(64), arguments, 0, nullptr));
    HIP(hipDeviceSynchronize());
    for (uint32_t round = 0; round < rounds; round++) {
        Words next(COUNT);
        for (uint32_t i = 0; i < COUNT; i++) next[i] = want[(i + 1001) % COUNT] + round;
        want = next;
    }
    SAME_AS(a.read(), want);
}

// A grid that cannot be on the device all at once could never pass its barrier.
CASE(cooperative_launch_that_is_too_large) {
    Buffer<uint32_t> a(COUNT), b(COUNT);
    uint32_t count = COUNT, rounds = 1;
    void* arguments[] = {&a.data, &b.data, &count, &rounds};
    HIP_FAILS(hipLaunchCooperativeKernel((const void*)rotate, dim3(1 << 20), dim3(64), arguments, 0, nullptr),
              hipErrorCooperativeLaunchTooLarge);
    HIP(hipLaunchCooperativeKernel((const void*)rotate, dim3(2), dim3(64), arguments, 0, nullptr));
    HIP(hipDeviceSynchronize());
}

template <unsigned SIZE>
__global__ void sum_of_tiles(uint32_t* out, const uint32_t* in) {
    auto tile = cg::tiled_partition<SIZE>(cg::this_thread_block());
    uint32_t sum = in[blockIdx.x * blockDim.x + threadIdx.x];
    for (unsigned step = SIZE / 2; step; step /= 2) sum += tile.shfl_xor(sum, step);
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum * 64 + threadIdx.x % SIZE;
}

template <unsigned SIZE>
static void check_tiles(const Words& from) {
    Buffer<uint32_t> in(from), out(from.size());
    sum_of_tiles<SIZE><<<from.size() / 256, 256>>>(out.data, in.data);
    FINISHED();
    Words want(from.size());
    for (size_t i = 0; i < from.size(); i++) {
        uint32_t sum = 0;
        for (size_t n = 0; n < SIZE; n++) sum += from[i / SIZE * SIZE + n];
        want[i] = sum * 64 + uint32_t(i % SIZE);
    }
    SAME_AS(out.read(), want);
}

CASE(cooperative_tiles) {
    Words from = noise(2048, 7);
    check_tiles<2>(from);
    check_tiles<4>(from);
    check_tiles<8>(from);
    check_tiles<16>(from);
    check_tiles<32>(from);
}

__global__ void print_formats() {
    if (threadIdx.x != 5) return;
    printf("[%5d|%-5d|%05d|%+d]\n", 42, 42, 42, 42);
    printf("[%x|%X|%#o|%llu|%lld]\n", 0xbeefu, 0xbeefu, 8u, ~0ull, -9007199254740993ll);
    printf("[%.3f|%10.2e|%g]\n", 3.14159, 123456.0, 0.5);
    printf("[%s|%c|%%|%.2s]\n", "text", 'c', "cut");
}

__global__ void print_each(uint32_t base) { printf("thread %u\n", base + blockIdx.x * blockDim.x + threadIdx.x); }

CASE(device_printf_formats) {
    char* said = capture(stdout, [] {
        print_formats<<<1, 32>>>();
        FINISHED();
    });
    const char* want = "[   42|42   |00042|+42]\n[beef|BEEF|010|18446744073709551615|-9007199254740993]\n"
                       "[3.142|  1.23e+05|0.5]\n[text|c|%|cu]\n";
    CHECK(strcmp(said, want) == 0, "printed \"%s\", not \"%s\"", said, want);
    free(said);
}

// Every thread of several launches prints a line, and no line is broken or lost.
CASE(device_printf_of_many_threads) {
    const uint32_t launches = 4, threads = 512;
    char* said = capture(stdout, [] {
        for (uint32_t i = 0; i < launches; i++) print_each<<<4, threads / 4>>>(i * threads);
        FINISHED();
    });
    std::vector<uint32_t> seen(launches * threads, 0), want(launches * threads, 1);
    for (char* line = strtok(said, "\n"); line; line = strtok(nullptr, "\n")) {
        unsigned thread = ~0u;
        char rest = 0;
        CHECK(sscanf(line, "thread %u%c", &thread, &rest) == 1 && thread < seen.size(), "line \"%s\"", line);
        seen[thread]++;
    }
    SAME_AS(seen, want);
    free(said);
}

__global__ void with_dynamic_lds(uint32_t* words) {
    extern __shared__ uint32_t tile[];
    tile[threadIdx.x] = words[threadIdx.x];
    __syncthreads();
    words[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

// More LDS means fewer blocks, never more than there is room for; a limit of the block is kept, in whole waves.
CASE(occupancy_follows_lds) {
    int blocks = 0, before = 1 << 30, grid = 0, block = 0;
    for (size_t lds = 8192; lds <= 65536; lds *= 2) {
        HIP(hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, with_dynamic_lds, 64, lds));
        CHECK(blocks >= 1 && blocks <= before && size_t(blocks) <= GPU_LDS / lds, "%d blocks with %zu bytes of LDS", blocks,
              lds);
        before = blocks;
    }
    HIP(hipOccupancyMaxPotentialBlockSize(&grid, &block, with_dynamic_lds, 4096, 96));
    CHECK(block <= (96 + GPU_WAVE - 1) / GPU_WAVE * GPU_WAVE && block >= GPU_WAVE && grid >= 1, "%d blocks of %d", grid, block);
    HIP_FAILS(hipOccupancyMaxActiveBlocksPerMultiprocessor(nullptr, with_dynamic_lds, 64, 0), hipErrorInvalidValue);
}

// Kernels of a template are found by the names that hipRTC gives them.
CASE(hiprtc_name_expressions_and_headers) {
    const char* header = "#define FACTOR 13\ntemplate <class T> __device__ T times(T x) { return x * (T)FACTOR; }\n";
    const char* source = "#include \"factor.h\"\ntemplate <class T, int N> __global__ void scale(T* words) {\n"
                         "    words[threadIdx.x] = times(words[threadIdx.x]) + (T)N;\n}\n";
    const char* names[] = {"scale<unsigned int, 3>", "scale<unsigned long, 4>"};
    const char* header_name = "factor.h";
    hiprtcProgram program;
    EQUAL(hiprtcCreateProgram(&program, source, "scale.hip", 1, &header, &header_name), HIPRTC_SUCCESS);
    for (const char* name : names) EQUAL(hiprtcAddNameExpression(program, name), HIPRTC_SUCCESS);
    const char* options[] = {"--offload-arch=" GPU_NAME};
    EQUAL(hiprtcCompileProgram(program, 1, options), HIPRTC_SUCCESS);
    size_t size = 0;
    EQUAL(hiprtcGetCodeSize(program, &size), HIPRTC_SUCCESS);
    std::vector<char> code(size);
    EQUAL(hiprtcGetCode(program, code.data()), HIPRTC_SUCCESS);
    std::string lowered[2];
    for (int i = 0; i < 2; i++) {
        const char* name = nullptr;
        EQUAL(hiprtcGetLoweredName(program, names[i], &name), HIPRTC_SUCCESS);
        lowered[i] = name;
    }
    CHECK(lowered[0] != lowered[1], "both are %s", lowered[0].c_str());
    EQUAL(hiprtcDestroyProgram(&program), HIPRTC_SUCCESS);
    hipModule_t module;
    hipFunction_t narrow, wide;
    HIP(hipModuleLoadData(&module, code.data()));
    HIP(hipModuleGetFunction(&narrow, module, lowered[0].c_str()));
    HIP(hipModuleGetFunction(&wide, module, lowered[1].c_str()));
    Words from = noise(64, 8), want = from;
    std::vector<uint64_t> from_wide(64), want_wide(64);
    for (int i = 0; i < 64; i++) {
        from_wide[i] = uint64_t(from[i]) << 20;
        want[i] = from[i] * 13 + 3;
        want_wide[i] = from_wide[i] * 13 + 4;
    }
    Buffer<uint32_t> words(from);
    Buffer<uint64_t> wides(from_wide);
    void* arguments[] = {&words.data};
    void* wide_arguments[] = {&wides.data};
    HIP(hipModuleLaunchKernel(narrow, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
    HIP(hipModuleLaunchKernel(wide, 1, 1, 1, 64, 1, 1, 0, nullptr, wide_arguments, nullptr));
    HIP(hipDeviceSynchronize());
    SAME_AS(words.read(), want);
    SAME_AS(wides.read(), want_wide);
    HIP(hipModuleUnload(module));
}
