// What programs of libdrm_amdgpu share: a device, buffer objects that both sides have mapped, and submissions.
#pragma once

#include "../cases.h"

#include <amdgpu.h>
#include <amdgpu_drm.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <xf86drm.h>

// A function of the library, which returns 0.
#define GOOD(call)                                            \
    do {                                                      \
        int error = (call);                                   \
        CHECK(error == 0, "%s returned %d", #call, error);    \
    } while (0)

struct device {
    int fd;
    amdgpu_device_handle handle;
    amdgpu_context_handle context;
};

struct memory {
    amdgpu_bo_handle bo;
    amdgpu_va_handle range;
    uint64_t size, va;
    uint32_t* words;
};

__attribute__((unused)) static struct device open_device(void) {
    struct device device = {.fd = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC)};
    uint32_t major = 0, minor = 0;
    CHECK(device.fd >= 0, "no render node");
    GOOD(amdgpu_device_initialize(device.fd, &major, &minor, &device.handle));
    EQUAL(major, 3u);
    GOOD(amdgpu_cs_ctx_create(device.handle, &device.context));
    return device;
}

__attribute__((unused)) static void close_device(struct device* device) {
    GOOD(amdgpu_cs_ctx_free(device->context));
    GOOD(amdgpu_device_deinitialize(device->handle));
    close(device->fd);
}

__attribute__((unused)) static struct memory allocate(struct device* device, uint64_t size, uint32_t heap) {
    struct memory memory = {.size = size};
    struct amdgpu_bo_alloc_request request = {.alloc_size = size, .phys_alignment = 4096, .preferred_heap = heap};
    GOOD(amdgpu_bo_alloc(device->handle, &request, &memory.bo));
    GOOD(amdgpu_va_range_alloc(device->handle, amdgpu_gpu_va_range_general, size, 4096, 0, &memory.va, &memory.range, 0));
    GOOD(amdgpu_bo_va_op(memory.bo, 0, size, memory.va, 0, AMDGPU_VA_OP_MAP));
    GOOD(amdgpu_bo_cpu_map(memory.bo, (void**)&memory.words));
    return memory;
}

__attribute__((unused)) static void give_back(struct memory* memory) {
    GOOD(amdgpu_bo_cpu_unmap(memory->bo));
    GOOD(amdgpu_bo_va_op(memory->bo, 0, memory->size, memory->va, 0, AMDGPU_VA_OP_UNMAP));
    GOOD(amdgpu_va_range_free(memory->range));
    GOOD(amdgpu_bo_free(memory->bo));
}

// Submits `dwords` of a buffer; what it says is its to judge.
__attribute__((unused)) static int submit(struct device* device, unsigned engine, struct memory* ib, uint32_t dwords,
                                          struct amdgpu_cs_fence* fence) {
    struct amdgpu_cs_ib_info info = {.ib_mc_address = ib->va, .size = dwords};
    struct amdgpu_cs_request request = {.ip_type = engine, .number_of_ibs = 1, .ibs = &info};
    int result = amdgpu_cs_submit(device->context, 0, &request, 1);
    *fence = (struct amdgpu_cs_fence){.context = device->context, .ip_type = engine, .fence = request.seq_no};
    return result;
}

// Waits for a submission; returns what the library returns.
__attribute__((unused)) static int wait_for(struct amdgpu_cs_fence* fence) {
    uint32_t expired = 0;
    int result = amdgpu_cs_query_fence_status(fence, AMDGPU_TIMEOUT_INFINITE, 0, &expired);
    CHECK(result != 0 || expired, "a wait without an end ended before its work");
    return result;
}

__attribute__((unused)) static void run(struct device* device, unsigned engine, struct memory* ib, uint32_t dwords) {
    struct amdgpu_cs_fence fence;
    GOOD(submit(device, engine, ib, dwords, &fence));
    GOOD(wait_for(&fence));
}

// Packets of PM4, linux `nvd.h`.
#define PACKET3(opcode, body) (3u << 30 | ((body)-1u) << 16 | (uint32_t)(opcode) << 8)
#define WRITE_DATA 0x37
#define DISPATCH_DIRECT 0x15
#define SET_SH_REG 0x76
#define LOW(address) ((uint32_t)(address))
#define HIGH(address) ((uint32_t)((uint64_t)(address) >> 32))
