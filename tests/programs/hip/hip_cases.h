// What the HIP programs share: checks of error codes by name, and buffers.
#pragma once

#include <hip/hip_runtime.h>

#include <vector>

#define _Static_assert static_assert
#include "../cases.h"

static inline void expect_hip(const char* file, int line, const char* call, hipError_t got, hipError_t want) {
    if (got != want) fail(file, line, "%s gave %s, not %s", call, hipGetErrorName(got), hipGetErrorName(want));
}

// A call that has to succeed.
#define HIP(call) expect_hip(__FILE__, __LINE__, #call, (call), hipSuccess)
// A call that has to fail in this very way; the runtime's memory of it is cleared.
#define HIP_FAILS(call, error)                                \
    do {                                                      \
        expect_hip(__FILE__, __LINE__, #call, (call), error); \
        (void)hipGetLastError();                              \
    } while (0)
// Most LDS of a workgroup: half of what a work group processor has, and all of what a compute unit of gfx950 has.
#define GROUP_LDS (GPU_LDS > 131072 ? GPU_LDS : 65536)
// What a launch with <<<>>> came to.
#define LAUNCHED() HIP(hipGetLastError())
// The same, and the end of the work.
#define FINISHED()               \
    do {                         \
        LAUNCHED();              \
        HIP(hipDeviceSynchronize()); \
    } while (0)

// Device memory of `count` elements.
template <class T>
struct Buffer {
    T* data = nullptr;
    size_t count;

    explicit Buffer(size_t count) : count(count) { HIP(hipMalloc((void**)&data, bytes())); }
    explicit Buffer(const std::vector<T>& from) : Buffer(from.size()) { write(from); }
    Buffer(const Buffer&) = delete;
    ~Buffer() { HIP(hipFree(data)); }

    size_t bytes() const { return count * sizeof(T); }
    void write(const std::vector<T>& from) { HIP(hipMemcpy(data, from.data(), bytes(), hipMemcpyHostToDevice)); }
    void clear() { HIP(hipMemset(data, 0, bytes())); }
    std::vector<T> read() const {
        std::vector<T> to(count);
        HIP(hipMemcpy(to.data(), data, bytes(), hipMemcpyDeviceToHost));
        return to;
    }
};

static inline std::vector<uint32_t> noise(size_t count, uint32_t seed = 1) {
    std::vector<uint32_t> words(count);
    fill_noise(words.data(), count, seed);
    return words;
}

template <class T>
static inline void same(const char* file, int line, const char* what, const std::vector<T>& got,
                        const std::vector<T>& want) {
    if (got.size() != want.size()) fail(file, line, "%s has %zu elements, not %zu", what, got.size(), want.size());
    same_elements(file, line, what, got.data(), want.data(), got.size(), sizeof(T));
}
// Compares two vectors bit for bit.
#define SAME_AS(got, want) same(__FILE__, __LINE__, #got, got, want)
