// What programs of libhsakmt share: the node of the GPU, memory, and queues with packets of their own.
#pragma once

#include "../cases.h"

#include <errno.h>
#include <hsakmt/hsakmt.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, RING = 64 << 10 };

// A function of the library, and the status that it answers.
#define GIVES(call, want)                                                                 \
    do {                                                                                  \
        HSAKMT_STATUS status_ = (call);                                                   \
        CHECK(status_ == (want), "%s gave status %d, not %d", #call, status_, (int)(want)); \
    } while (0)
#define GOOD(call) GIVES(call, HSAKMT_STATUS_SUCCESS)

static HsaSystemProperties the_system;
static HsaNodeProperties the_gpu;
static HSAuint32 gpu_node;

// Opens the thunk and finds the GPU.
__attribute__((unused)) static void open_thunk(void) {
    GOOD(hsaKmtOpenKFD());
    GOOD(hsaKmtAcquireSystemProperties(&the_system));
    for (gpu_node = 0; gpu_node < the_system.NumNodes; gpu_node++) {
        GOOD(hsaKmtGetNodeProperties(gpu_node, &the_gpu));
        if (the_gpu.NumFComputeCores > 0) return;
    }
    FAIL("no node has a GPU");
}

__attribute__((unused)) static void close_thunk(void) {
    GOOD(hsaKmtReleaseSystemProperties());
    GOOD(hsaKmtCloseKFD());
}

// System memory that a queue, a kernel and the processor reach.
__attribute__((unused)) static HsaMemFlags system_flags(void) {
    HsaMemFlags flags = {.Value = 0};
    flags.ui32.HostAccess = 1;
    flags.ui32.ExecuteAccess = 1;
    flags.ui32.PageSize = HSA_PAGE_SIZE_4KB;
    return flags;
}

__attribute__((unused)) static HsaMemFlags vram_flags(void) {
    HsaMemFlags flags = {.Value = 0};
    flags.ui32.NonPaged = 1;
    flags.ui32.HostAccess = 1;
    flags.ui32.ExecuteAccess = 1;
    flags.ui32.CoarseGrain = 1;
    flags.ui32.NoSubstitute = 1;
    return flags;
}

// Memory of a node, mapped on the GPU.
__attribute__((unused)) static void* allocate(HSAuint32 node, HSAuint64 size, HsaMemFlags flags) {
    void* memory = NULL;
    HSAuint64 alternate = 0;
    GOOD(hsaKmtAllocMemory(node, size, flags, &memory));
    GOOD(hsaKmtMapMemoryToGPU(memory, size, &alternate));
    return memory;
}
__attribute__((unused)) static void* in_system(HSAuint64 size) {
    void* memory = allocate(0, size, system_flags());
    memset(memory, 0, size);
    return memory;
}
__attribute__((unused)) static void* in_vram(HSAuint64 size) { return allocate(gpu_node, size, vram_flags()); }
__attribute__((unused)) static void give_back(void* memory, HSAuint64 size) {
    GOOD(hsaKmtUnmapMemoryToGPU(memory));
    GOOD(hsaKmtFreeMemory(memory, size));
}

__attribute__((unused)) static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

// Waits until a word has a value; a minute is the harness's to count.
__attribute__((unused)) static void until(volatile uint32_t* word, uint32_t value) {
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
        usleep(100);
}

// A queue and its ring. `index` counts dwords of PM4, bytes of SDMA and packets of AQL.
struct queue {
    HSA_QUEUE_TYPE type;
    HsaQueueResource resource;
    uint32_t* ring;
    uint64_t* indices;
    uint64_t index;
};

__attribute__((unused)) static HSAKMT_STATUS try_queue(struct queue* queue, HSA_QUEUE_TYPE type, HSAuint32 percentage,
                                                       HSA_QUEUE_PRIORITY priority, HSAuint64 size, HsaEvent* event) {
    *queue = (struct queue){.type = type, .ring = in_system(RING), .indices = in_system(PAGE)};
    if (type == HSA_QUEUE_COMPUTE_AQL) {
        // As in amd_queue_t: the indices, and how far the second is from the queue's beginning.
        queue->resource.Queue_write_ptr_aql = queue->indices + 7;
        queue->resource.Queue_read_ptr_aql = queue->indices + 16;
        ((uint32_t*)queue->indices)[34] = 16 * 8;
        for (uint32_t at = 0; at < RING / 64; at++)
            queue->ring[at * 16] = 1;
    }
    return hsaKmtCreateQueue(gpu_node, type, percentage, priority, queue->ring, size, event, &queue->resource);
}
__attribute__((unused)) static struct queue make_queue(HSA_QUEUE_TYPE type) {
    struct queue queue;
    GOOD(try_queue(&queue, type, 100, HSA_QUEUE_PRIORITY_NORMAL, RING, NULL));
    return queue;
}
__attribute__((unused)) static void end_queue(struct queue* queue) {
    GOOD(hsaKmtDestroyQueue(queue->resource.QueueId));
    give_back(queue->ring, RING);
    give_back(queue->indices, PAGE);
}

// Puts dwords on the ring of a PM4 or SDMA queue.
__attribute__((unused)) static void put(struct queue* queue, const uint32_t* dwords, uint32_t count) {
    uint64_t unit = queue->type == HSA_QUEUE_COMPUTE ? 1 : 4;
    for (uint32_t i = 0; i < count; i++, queue->index += unit)
        queue->ring[queue->index / unit % (RING / 4)] = dwords[i];
}
__attribute__((unused)) static void ring_doorbell(struct queue* queue) {
    __atomic_store_n(queue->resource.Queue_write_ptr_aql, queue->index, __ATOMIC_RELEASE);
    __atomic_store_n((volatile uint64_t*)queue->resource.Queue_DoorBell_aql,
                     queue->type == HSA_QUEUE_COMPUTE_AQL ? queue->index - 1 : queue->index, __ATOMIC_RELEASE);
}

// Packets of PM4 (linux `nvd.h`) and of SDMA (`sdma_v6_0_0_pkt_open.h`).
#define PACKET3(opcode, body) (3u << 30 | ((body)-1u) << 16 | (uint32_t)(opcode) << 8)
#define LOW(address) ((uint32_t)(uintptr_t)(address))
#define HIGH(address) ((uint32_t)((uint64_t)(uintptr_t)(address) >> 32))

// Writes a word when everything before has been done.
__attribute__((unused)) static void put_write(struct queue* queue, void* address, uint32_t value) {
    if (queue->type == HSA_QUEUE_COMPUTE) {
        const uint32_t write[] = {PACKET3(0x37, 4), 5 << 8 | 1 << 20, LOW(address), HIGH(address), value};
        put(queue, write, 5);
    } else {
        const uint32_t fence[] = {5 | 3 << 16, LOW(address), HIGH(address), value};
        put(queue, fence, 4);
    }
}

// Copies on an SDMA queue.
__attribute__((unused)) static void put_copy(struct queue* queue, void* to, const void* from, uint32_t bytes) {
    const uint32_t copy[] = {1, bytes - 1, 0, LOW(from), HIGH(from), LOW(to), HIGH(to)};
    put(queue, copy, 7);
}

// Writes the event's number to its slot and interrupts.
__attribute__((unused)) static void put_event(struct queue* queue, HsaEvent* event) {
    const uint32_t id = event->EventId;
    const uint64_t slot = event->EventData.HWData2;
    if (queue->type == HSA_QUEUE_COMPUTE) {
        const uint32_t release[] = {PACKET3(0x49, 7), 0x14 | 5 << 8, 2 << 24 | 1u << 29, LOW(slot), HIGH(slot), id, 0, id};
        put(queue, release, 8);
    } else {
        const uint32_t fence_and_trap[] = {5 | 3 << 16, LOW(slot), HIGH(slot), id, 6, id};
        put(queue, fence_and_trap, 6);
    }
}

// Waits until a queue has done what it has got so far.
__attribute__((unused)) static void finish(struct queue* queue) {
    static uint32_t round;
    volatile uint32_t* done = (volatile uint32_t*)(queue->indices + 64);
    put_write(queue, (void*)done, ++round);
    ring_doorbell(queue);
    until(done, round);
}

__attribute__((unused)) static HsaEvent* make_event(HSA_EVENTTYPE type, bool manual, bool signaled) {
    HsaEventDescriptor description = {.EventType = type, .NodeId = gpu_node};
    HsaEvent* event = NULL;
    GOOD(hsaKmtCreateEvent(&description, manual, signaled, &event));
    return event;
}
