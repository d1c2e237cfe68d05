// What the programs of cases share: checks, memory, and the last line that says whether all went well.
#pragma once
#include <hip/hip_runtime.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

static int bad = 0, good = 0;

// A call of HIP, which has to succeed.
#define H(x)                                                                            \
    do {                                                                                \
        hipError_t e_ = (x);                                                            \
        if (e_ != hipSuccess) {                                                         \
            printf("%s:%d %s -> %s\n", __FILE__, __LINE__, #x, hipGetErrorName(e_));    \
            exit(3);                                                                    \
        }                                                                               \
    } while (0)

// A number that has to be the wanted one; the first 40 that are not are printed.
static inline void eq(const char* what, unsigned long long want, unsigned long long got) {
    if (want == got) {
        good++;
    } else {
        bad++;
        if (bad < 40) printf("DIFF %-40s want %llx got %llx\n", what, want, got);
    }
}

static inline void ok(const char* what, bool holds) {
    if (holds) {
        good++;
    } else {
        bad++;
        printf("DIFF %s\n", what);
    }
}

// Prints the last line; the program's exit status. A program that has checked nothing has not passed.
static inline int done(const char* name) {
    hipDeviceProp_t p;
    if (hipGetDeviceProperties(&p, 0) != hipSuccess) p.gcnArchName[0] = 0;
    bool passed = good > 0 && bad == 0;
    printf("%s %s: %d ok, %d wrong -> %s\n", name, p.gcnArchName, good, bad, passed ? "PASS" : "FAIL");
    fflush(stdout);
    return passed ? 0 : 1;
}

// Whether the device is of a family of chips, as "gfx12".
static inline bool family(const char* name) {
    hipDeviceProp_t p;
    H(hipGetDeviceProperties(&p, 0));
    return strncmp(p.gcnArchName, name, strlen(name)) == 0;
}

// Singles and their bits.
static inline float single(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static inline uint32_t bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

// The same numbers in every run (Marsaglia's xorshift).
struct Random {
    uint64_t state = 88172645463325252ull;

    uint32_t next() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return (uint32_t)(state >> 16);
    }
};

// Seconds of the host's clock.
static inline double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Memory of the device: zeroes, and copies from and to the host.
template <class T>
T* dev(size_t n) {
    T* p;
    H(hipMalloc(&p, n * sizeof(T)));
    H(hipMemset(p, 0, n * sizeof(T)));
    return p;
}

template <class T>
std::vector<T> host(const T* p, size_t n) {
    std::vector<T> v(n);
    H(hipMemcpy(v.data(), p, n * sizeof(T), hipMemcpyDeviceToHost));
    return v;
}

template <class T>
T* up(const std::vector<T>& v) {
    T* p;
    H(hipMalloc(&p, v.size() * sizeof(T)));
    H(hipMemcpy(p, v.data(), v.size() * sizeof(T), hipMemcpyHostToDevice));
    return p;
}
