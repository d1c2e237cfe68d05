// What the programs of two GPUs share.
#pragma once

#include "hip_cases.h"

static const size_t COUNT = 20011;

using Words = std::vector<uint32_t>;

// Makes a device the current one, with access to the other one's memory.
[[maybe_unused]] static void on(int device, bool with_access = true) {
    HIP(hipSetDevice(device));
    if (!with_access) return;
    hipError_t error = hipDeviceEnablePeerAccess(1 - device, 0);
    if (error != hipErrorPeerAccessAlreadyEnabled) expect_hip(__FILE__, __LINE__, "hipDeviceEnablePeerAccess", error, hipSuccess);
    (void)hipGetLastError();
}

__global__ void step(uint32_t* out, const uint32_t* in, size_t count) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < count) out[i] = in[i] * 5 + 1;
}
// The same on the processor.
static inline void stepped(Words& words) {
    for (uint32_t& word : words) word = word * 5 + 1;
}

// Starts `step` on a buffer in its place.
static inline void step_in_place(Buffer<uint32_t>& words, hipStream_t stream = nullptr) {
    step<<<unsigned((words.count + 255) / 256), 256, 0, stream>>>(words.data, words.data, words.count);
    LAUNCHED();
}
