// Programs compiled while the host runs: headers, templates, options, bit code; and modules in ways of their own.
#include "hip_cases.h"

#include <hip/hiprtc.h>

#include <string>

using Words = std::vector<uint32_t>;

static const uint32_t COUNT = 3001;

#define RTC(call) expect_rtc(__LINE__, #call, (call), HIPRTC_SUCCESS)
#define RTC_FAILS(call, error) expect_rtc(__LINE__, #call, (call), error)

static void expect_rtc(int line, const char* call, hiprtcResult got, hiprtcResult want) {
    if (got != want) fail(__FILE__, line, "%s gave %s", call, hiprtcGetErrorString(got));
}

struct Source {
    hiprtcProgram program;

    explicit Source(const char* text, std::vector<const char*> names = {}, std::vector<const char*> headers = {}) {
        RTC(hiprtcCreateProgram(&program, text, "source.hip", int(names.size()), headers.data(), names.data()));
    }
    Source(const Source&) = delete;
    ~Source() { RTC(hiprtcDestroyProgram(&program)); }
    std::string log() const {
        size_t size = 0;
        RTC(hiprtcGetProgramLogSize(program, &size));
        std::string log(size, ' ');
        if (size) RTC(hiprtcGetProgramLog(program, &log[0]));
        return log;
    }
    void compile(std::vector<const char*> options = {}) const {
        options.push_back("--offload-arch=" GPU_NAME);
        hiprtcResult result = hiprtcCompileProgram(program, int(options.size()), options.data());
        if (result != HIPRTC_SUCCESS) FAIL("%s: %s", hiprtcGetErrorString(result), log().c_str());
    }
    std::vector<char> code() const {
        size_t size = 0;
        RTC(hiprtcGetCodeSize(program, &size));
        std::vector<char> code(size);
        RTC(hiprtcGetCode(program, code.data()));
        return code;
    }
};

struct Module {
    hipModule_t module;

    explicit Module(const void* code) { HIP(hipModuleLoadData(&module, code)); }
    Module(const Module&) = delete;
    ~Module() { HIP(hipModuleUnload(module)); }
    hipFunction_t function(const char* name) const {
        hipFunction_t function;
        HIP(hipModuleGetFunction(&function, module, name));
        return function;
    }
};

// Runs a kernel of (words, count) over noise.
static Words run(hipFunction_t function, const Words& from) {
    Buffer<uint32_t> words(from);
    uint32_t count = uint32_t(from.size());
    void* arguments[] = {&words.data, &count};
    HIP(hipModuleLaunchKernel(function, (count + 127) / 128, 1, 1, 128, 1, 1, 0, nullptr, arguments, nullptr));
    HIP(hipDeviceSynchronize());
    return words.read();
}

CASE(hiprtc_variable_by_name) {
    Source source(R"(
        __device__ unsigned table[16];
        __constant__ unsigned salt;
        extern "C" __global__ void kernel(unsigned* words, unsigned count) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < count) words[i] ^= table[i % 16] + salt;
        })");
    RTC(hiprtcAddNameExpression(source.program, "&table"));
    RTC(hiprtcAddNameExpression(source.program, "&salt"));
    source.compile();
    Module module(source.code().data());
    Words table = noise(16, 3), want = noise(COUNT, 4);
    uint32_t salt = 0x1234567;
    const char* name = nullptr;
    hipDeviceptr_t address = nullptr;
    size_t size = 0;
    RTC(hiprtcGetLoweredName(source.program, "&table", &name));
    HIP(hipModuleGetGlobal(&address, &size, module.module, name));
    EQUAL(size, 64);
    HIP(hipMemcpyHtoD(address, table.data(), 64));
    RTC(hiprtcGetLoweredName(source.program, "&salt", &name));
    HIP(hipModuleGetGlobal(&address, &size, module.module, name));
    EQUAL(size, 4);
    HIP(hipMemcpyHtoD(address, &salt, 4));
    Words got = run(module.function("kernel"), want);
    for (uint32_t i = 0; i < COUNT; i++) want[i] ^= table[i % 16] + salt;
    SAME_AS(got, want);
}

// The same source, optimised and not, comes to the same.
CASE(hiprtc_levels_of_optimisation) {
    const char* text = R"(
        extern "C" __global__ void kernel(unsigned* words, unsigned count) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x, bits[32];
            if (i >= count) return;
            for (unsigned n = 0; n < 32; n++) bits[n] = (words[i] >> n) & 1;
            unsigned reversed = 0;
            for (unsigned n = 0; n < 32; n++) reversed |= bits[31 - n] << n;
            words[i] = reversed;
        })";
    Words from = noise(COUNT, 5), want = from;
    for (uint32_t& word : want) {
        uint32_t reversed = 0;
        for (unsigned n = 0; n < 32; n++) reversed |= ((word >> n) & 1) << (31 - n);
        word = reversed;
    }
    for (const char* level : {"-O0", "-O1", "-O3"}) {
        Source source(text);
        source.compile({level});
        Module module(source.code().data());
        SAME_AS(run(module.function("kernel"), from), want);
    }
}

CASE(hiprtc_shared_memory_and_barriers) {
    Source source(R"(
        extern "C" __global__ void kernel(unsigned* words, unsigned count) {
            __shared__ unsigned tile[128];
            unsigned i = blockIdx.x * 128 + threadIdx.x;
            tile[threadIdx.x] = i < count ? words[i] : 0;
            for (unsigned step = 1; step < 128; step *= 2) {
                __syncthreads();
                unsigned before = threadIdx.x >= step ? tile[threadIdx.x - step] : 0;
                __syncthreads();
                tile[threadIdx.x] += before;
            }
            if (i < count) words[i] = tile[threadIdx.x];
        })");
    source.compile();
    Module module(source.code().data());
    Words want = noise(COUNT, 6);
    Words got = run(module.function("kernel"), want);
    for (uint32_t i = 1; i < COUNT; i++)
        if (i % 128) want[i] += want[i - 1];
    SAME_AS(got, want);
}

// Bit code of one program, linked into a code object with that of another.
CASE(hiprtc_links_bit_code) {
    Source library("__device__ unsigned mix(unsigned word) { return (word ^ 0x5bd1e995u) * 0x9e3779b1u; }");
    Source source(R"(
        extern __device__ unsigned mix(unsigned word);
        extern "C" __global__ void kernel(unsigned* words, unsigned count) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < count) words[i] = mix(words[i]) + i;
        })");
    hiprtcLinkState link;
    RTC(hiprtcLinkCreate(0, nullptr, nullptr, &link));
    for (Source* part : {&library, &source}) {
        part->compile({"-fgpu-rdc"});
        size_t size = 0;
        RTC(hiprtcGetBitcodeSize(part->program, &size));
        std::vector<char> bits(size);
        RTC(hiprtcGetBitcode(part->program, bits.data()));
        RTC(hiprtcLinkAddData(link, HIPRTC_JIT_INPUT_LLVM_BITCODE, bits.data(), size, "part", 0, nullptr, nullptr));
    }
    void* code = nullptr;
    size_t size = 0;
    RTC(hiprtcLinkComplete(link, &code, &size));
    CHECK(size > 0, "no code");
    {
        Module module(code);
        Words want = noise(COUNT, 7);
        Words got = run(module.function("kernel"), want);
        for (uint32_t i = 0; i < COUNT; i++) want[i] = (want[i] ^ 0x5bd1e995u) * 0x9e3779b1u + i;
        SAME_AS(got, want);
    }
    RTC(hiprtcLinkDestroy(link));
}

CASE(hiprtc_mistakes) {
    int major = 0, minor = -1;
    RTC(hiprtcVersion(&major, &minor));
    CHECK(major >= 1 && minor >= 0, "version %d.%d", major, minor);
    RTC_FAILS(hiprtcVersion(nullptr, &minor), HIPRTC_ERROR_INVALID_INPUT);
    RTC_FAILS(hiprtcCreateProgram(nullptr, "", "x", 0, nullptr, nullptr), HIPRTC_ERROR_INVALID_PROGRAM);
    Source source("extern \"C\" __global__ void kernel() {}");
    const char* name = nullptr;
    RTC_FAILS(hiprtcAddNameExpression(source.program, nullptr), HIPRTC_ERROR_INVALID_INPUT);
    source.compile();
    RTC_FAILS(hiprtcGetLoweredName(source.program, "kernel", &name), HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID);
}

static const char* TWO_KERNELS = R"(
    extern "C" __global__ void __launch_bounds__(64) narrow(unsigned* words, unsigned count) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < count) words[i] += 1;
    }
    extern "C" __global__ void with_lds(unsigned* words, unsigned count) {
        __shared__ unsigned tile[4096];
        tile[threadIdx.x] = threadIdx.x;
        __syncthreads();
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < count) words[i] += tile[blockDim.x - 1 - threadIdx.x];
    })";

CASE(module_function_attributes) {
    Source source(TWO_KERNELS);
    source.compile();
    Module module(source.code().data());
    int value = -1;
    HIP(hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, module.function("with_lds")));
    EQUAL(value, 16384);
    HIP(hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, module.function("narrow")));
    EQUAL(value, 0);
    HIP(hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, module.function("narrow")));
    EQUAL(value, 64);
    HIP(hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_NUM_REGS, module.function("narrow")));
    CHECK(value > 0 && value <= 256, "%d registers", value);
    HIP_FAILS(hipFuncGetAttribute(nullptr, HIP_FUNC_ATTRIBUTE_NUM_REGS, module.function("narrow")),
              hipErrorInvalidValue);
}

CASE(module_occupancy) {
    Source source(TWO_KERNELS);
    source.compile();
    Module module(source.code().data());
    int alone = 0, crowded = 0, grid = 0, block = 0;
    hipFunction_t with_lds = module.function("with_lds"), narrow = module.function("narrow");
    HIP(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&alone, with_lds, 64, 0));
    HIP(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&crowded, with_lds, 64, 49152));
    // 16 KiB of the kernel's own leave room for four times as many blocks as 64 KiB do, and on gfx950 for two more.
    CHECK(alone >= 4 && (alone % 4 == 0 || alone == 10) && alone <= 10, "%d blocks", alone);
    EQUAL(crowded, alone / 4);
    HIP(hipModuleOccupancyMaxPotentialBlockSize(&grid, &block, narrow, 0, 0));
    CHECK(block >= 32 && block <= 1024 && block % 32 == 0 && grid >= 1, "%d blocks of %d", grid, block);
    HIP_FAILS(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(nullptr, narrow, 64, 0), hipErrorInvalidValue);
}

// A block that is wider than the kernel was made for.
CASE(module_launch_past_the_bounds) {
    Source source(TWO_KERNELS);
    source.compile();
    Module module(source.code().data());
    Buffer<uint32_t> words(Words(256, 9));
    uint32_t count = 256;
    void* arguments[] = {&words.data, &count};
    hipFunction_t narrow = module.function("narrow");
    hipError_t error = hipModuleLaunchKernel(narrow, 1, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr);
    (void)hipGetLastError();
    CHECK(error == hipErrorLaunchFailure || error == hipErrorInvalidValue, "%s", hipGetErrorName(error));
    HIP(hipDeviceSynchronize());
    SAME_AS(words.read(), Words(256, 9));
    HIP(hipModuleLaunchKernel(narrow, 4, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
    HIP(hipDeviceSynchronize());
    SAME_AS(words.read(), Words(256, 10));
}

// Two modules with kernels and variables of the same names do not meet.
CASE(modules_side_by_side) {
    Words want = noise(COUNT, 8), got = want;
    Source first(R"(__device__ unsigned state = 5;
        extern "C" __global__ void kernel(unsigned* words, unsigned count) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < count) words[i] += state;
        })");
    Source second(R"(__device__ unsigned state = 9;
        extern "C" __global__ void kernel(unsigned* words, unsigned count) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < count) words[i] *= state;
        })");
    first.compile();
    second.compile();
    Module add(first.code().data()), multiply(second.code().data());
    for (int round = 0; round < 3; round++) {
        got = run(multiply.function("kernel"), run(add.function("kernel"), got));
        for (uint32_t& word : want) word = (word + 5) * 9;
        SAME_AS(got, want);
    }
}
