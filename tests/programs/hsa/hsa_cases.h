// What programs of ROCr's own interface share: agents, pools, queues, packets and a code object.
#pragma once

#include "../cases.h"

#include <errno.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096 };

#define GIVES(call, want)                                                                          \
    do {                                                                                           \
        hsa_status_t status_ = (call);                                                             \
        const hsa_status_t want_ = (hsa_status_t)(want);                                           \
        CHECK(status_ == want_, "%s gave %s, not %s", #call, name_of(status_), name_of(want_));    \
    } while (0)
#define GOOD(call) GIVES(call, HSA_STATUS_SUCCESS)
#define REFUSED(call) CHECK((call) != HSA_STATUS_SUCCESS, "it was taken")

static hsa_agent_t cpu, gpu;
static hsa_amd_memory_pool_t fine, coarse, kernargs, vram;

__attribute__((unused)) static const char* name_of(hsa_status_t status) {
    static char numbers[4][32];
    static unsigned next;
    const char* text = NULL;
    if (hsa_status_string(status, &text) == HSA_STATUS_SUCCESS && text) return text;
    char* number = numbers[next++ % 4];
    snprintf(number, sizeof numbers[0], "status %#x", (unsigned)status);
    return number;
}

static hsa_status_t take_pool(hsa_amd_memory_pool_t pool, void* agent) {
    hsa_amd_segment_t segment;
    uint32_t flags = 0;
    GOOD(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment));
    if (segment != HSA_AMD_SEGMENT_GLOBAL) return HSA_STATUS_SUCCESS;
    GOOD(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags));
    bool is_gpu = ((hsa_agent_t*)agent)->handle == gpu.handle;
    if (is_gpu && (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED)) vram = pool;
    if (!is_gpu && (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED)) coarse = pool;
    if (!is_gpu && (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT)) kernargs = pool;
    else if (!is_gpu && (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED)) fine = pool;
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t take_agent(hsa_agent_t agent, void* unused) {
    (void)unused;
    hsa_device_type_t type;
    GOOD(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
    if (type == HSA_DEVICE_TYPE_GPU) gpu = agent;
    if (type == HSA_DEVICE_TYPE_CPU) cpu = agent;
    return HSA_STATUS_SUCCESS;
}

// Starts the runtime and finds the agents and their pools.
__attribute__((unused)) static void start(void) {
    GOOD(hsa_init());
    GOOD(hsa_iterate_agents(take_agent, NULL));
    CHECK(gpu.handle && cpu.handle, "there is no GPU");
    GOOD(hsa_amd_agent_iterate_memory_pools(cpu, take_pool, &cpu));
    GOOD(hsa_amd_agent_iterate_memory_pools(gpu, take_pool, &gpu));
    CHECK(vram.handle && fine.handle && kernargs.handle && coarse.handle, "a pool is not there");
}

// Memory that both sides reach.
__attribute__((unused)) static void* allocate(hsa_amd_memory_pool_t pool, size_t size) {
    void* memory = NULL;
    hsa_agent_t both[2] = {cpu, gpu};
    GOOD(hsa_amd_memory_pool_allocate(pool, size, 0, &memory));
    GOOD(hsa_amd_agents_allow_access(2, both, NULL, memory));
    memset(memory, 0, size);
    return memory;
}
__attribute__((unused)) static void give_back(void* memory) { GOOD(hsa_amd_memory_pool_free(memory)); }

__attribute__((unused)) static hsa_signal_t make_signal(hsa_signal_value_t value) {
    hsa_signal_t signal;
    GOOD(hsa_signal_create(value, 0, NULL, &signal));
    return signal;
}
__attribute__((unused)) static void wait_for(hsa_signal_t signal, hsa_signal_value_t value) {
    hsa_signal_value_t seen =
        hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_EQ, value, UINT64_MAX, HSA_WAIT_STATE_BLOCKED);
    EQUAL(seen, value);
}

__attribute__((unused)) static hsa_queue_t* make_queue(uint32_t size) {
    hsa_queue_t* queue = NULL;
    GOOD(hsa_queue_create(gpu, size, HSA_QUEUE_TYPE_MULTI, NULL, NULL, UINT32_MAX, UINT32_MAX, &queue));
    return queue;
}

// The kernels of `hsa_kernels.cl`.
__asm__(".section .rodata\n.balign 4096\nkernels_begin: .incbin \"hsa_kernels.hsaco\"\nkernels_end: .previous\n");
extern const char kernels_begin[], kernels_end[];

struct kernel {
    uint64_t object;
    uint32_t arguments, group, private;
};

__attribute__((unused)) static hsa_executable_t load(void) {
    hsa_code_object_reader_t reader;
    hsa_executable_t executable;
    GOOD(hsa_code_object_reader_create_from_memory(kernels_begin, (size_t)(kernels_end - kernels_begin), &reader));
    GOOD(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL, &executable));
    GOOD(hsa_executable_load_agent_code_object(executable, gpu, reader, NULL, NULL));
    GOOD(hsa_executable_freeze(executable, NULL));
    GOOD(hsa_code_object_reader_destroy(reader));
    return executable;
}

__attribute__((unused)) static struct kernel find(hsa_executable_t executable, const char* name) {
    char full[64];
    struct kernel kernel = {0};
    hsa_executable_symbol_t symbol;
    snprintf(full, sizeof full, "%s.kd", name);
    GOOD(hsa_executable_get_symbol_by_name(executable, full, &gpu, &symbol));
    GOOD(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &kernel.object));
    GOOD(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE, &kernel.arguments));
    GOOD(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE, &kernel.group));
    GOOD(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE, &kernel.private));
    return kernel;
}

// Arguments, in memory of their kind, with room for those that the compiler adds.
__attribute__((unused)) static void* arguments_of(const void* values, size_t size) {
    void* memory = allocate(kernargs, PAGE);
    memcpy(memory, values, size);
    return memory;
}

enum { BARRIER = 1 << HSA_PACKET_HEADER_BARRIER };

// Puts a packet on a queue when there is room, without the header; `doorbell` rings for it.
__attribute__((unused)) static uint64_t put(hsa_queue_t* queue, const void* packet, uint16_t type, uint16_t more, bool ring) {
    uint64_t index = hsa_queue_add_write_index_screlease(queue, 1);
    while (index - hsa_queue_load_read_index_scacquire(queue) >= queue->size)
        usleep(10);
    char* slot = (char*)queue->base_address + index % queue->size * 64;
    memcpy(slot + 2, (const char*)packet + 2, 62);
    uint16_t header = (uint16_t)(type << HSA_PACKET_HEADER_TYPE | more |
                                 HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                                 HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE);
    __atomic_store_n((uint16_t*)slot, header, __ATOMIC_RELEASE);
    if (ring) hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)index);
    return index;
}

__attribute__((unused)) static hsa_kernel_dispatch_packet_t packet_of(struct kernel kernel, void* arguments, uint32_t items,
                                                                      uint16_t group, hsa_signal_t signal) {
    hsa_kernel_dispatch_packet_t packet = {
        .setup = 1,
        .workgroup_size_x = group,
        .workgroup_size_y = 1,
        .workgroup_size_z = 1,
        .grid_size_x = items,
        .grid_size_y = 1,
        .grid_size_z = 1,
        .private_segment_size = kernel.private,
        .group_segment_size = kernel.group,
        .kernel_object = kernel.object,
        .kernarg_address = arguments,
        .completion_signal = signal,
    };
    return packet;
}

__attribute__((unused)) static void dispatch(hsa_queue_t* queue, struct kernel kernel, void* arguments, uint32_t items,
                                             uint16_t group, hsa_signal_t signal) {
    hsa_kernel_dispatch_packet_t packet = packet_of(kernel, arguments, items, group, signal);
    put(queue, &packet, HSA_PACKET_TYPE_KERNEL_DISPATCH, BARRIER, true);
}

// Dispatches and waits for the end.
__attribute__((unused)) static void run(hsa_queue_t* queue, struct kernel kernel, void* arguments, uint32_t items,
                                        uint16_t group) {
    hsa_signal_t signal = make_signal(1);
    dispatch(queue, kernel, arguments, items, group, signal);
    wait_for(signal, 0);
    GOOD(hsa_signal_destroy(signal));
}
