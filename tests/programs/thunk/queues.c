// Queues of every type as the thunk makes them, each with work to do.
#include "thunk_dispatch.h"

#include <pthread.h>

enum { ITEMS = 4096 };

struct squares_arguments {
    uint32_t* out;
    uint32_t first;
};
struct one_pointer {
    void* pointer;
};

static void check_squares(const uint32_t* out, uint32_t first) {
    for (uint32_t at = 0; at < ITEMS; at++)
        CHECK(out[at] == first + at * at, "out[%u] is %u, not %u", at, out[at], first + at * at);
}

// Runs the squares on a PM4 queue once.
static void run_squares(struct queue* queue, uint32_t first) {
    uint32_t* out = (uint32_t*)in_system(ITEMS * 4);
    struct squares_arguments* arguments = (struct squares_arguments*)in_system(PAGE);
    *arguments = (struct squares_arguments){out, first};
    put_dispatch(queue, "squares", arguments, ITEMS / 64);
    finish(queue);
    check_squares(out, first);
    give_back(out, ITEMS * 4);
    give_back(arguments, PAGE);
}

CASE(pm4_queue_writes_data) {
    open_thunk();
    struct queue queue = make_queue(HSA_QUEUE_COMPUTE);
    uint32_t* words = (uint32_t*)in_system(PAGE);
    for (uint32_t at = 0; at < 1024; at++)
        put_write(&queue, words + at, at * 2654435761u);
    finish(&queue);
    for (uint32_t at = 0; at < 1024; at++)
        EQUAL(words[at], at * 2654435761u);
    give_back(words, PAGE);
    end_queue(&queue);
    close_thunk();
}

CASE(pm4_queue_dispatches_a_kernel) {
    open_thunk();
    load_kernels();
    struct queue queue = make_queue(HSA_QUEUE_COMPUTE);
    for (uint32_t round = 0; round < 10; round++)
        run_squares(&queue, round);
    end_queue(&queue);
}

CASE(pm4_ring_wraps_around) {
    open_thunk();
    struct queue queue = make_queue(HSA_QUEUE_COMPUTE);
    uint32_t* words = (uint32_t*)in_system(PAGE);
    for (uint32_t round = 0; round < 10; round++) {
        for (uint32_t at = 0; at < 1000; at++)
            put_write(&queue, words + at, round << 16 | at);
        finish(&queue);
        for (uint32_t at = 0; at < 1000; at++)
            EQUAL(words[at], round << 16 | at);
    }
    CHECK(queue.index > 2 * RING / 4, "the ring was not filled twice");
    end_queue(&queue);
}

CASE(pm4_queue_signals_an_event) {
    open_thunk();
    struct queue queue = make_queue(HSA_QUEUE_COMPUTE);
    HsaEvent* event = make_event(HSA_EVENTTYPE_SIGNAL, false, false);
    for (int round = 0; round < 50; round++) {
        put_event(&queue, event);
        ring_doorbell(&queue);
        GOOD(hsaKmtWaitOnEvent(event, 30000));
    }
    GIVES(hsaKmtWaitOnEvent(event, 10), HSAKMT_STATUS_WAIT_TIMEOUT);
    GOOD(hsaKmtDestroyEvent(event));
    end_queue(&queue);
}

CASE(sdma_queue_copies_both_ways) {
    enum { BYTES = 1 << 20 };
    open_thunk();
    struct queue queue = make_queue(HSA_QUEUE_SDMA);
    uint32_t* from = (uint32_t*)in_system(BYTES);
    uint32_t* to = (uint32_t*)in_system(BYTES);
    void* vram = in_vram(BYTES);
    fill_noise(from, BYTES / 4, 1);
    put_copy(&queue, vram, from, BYTES);
    put_copy(&queue, to, vram, BYTES);
    finish(&queue);
    SAME(to, from, BYTES / 4);
    end_queue(&queue);
}

CASE(sdma_queue_copies_odd_lengths) {
    open_thunk();
    struct queue queue = make_queue(HSA_QUEUE_SDMA);
    uint8_t* from = (uint8_t*)in_system(2 * PAGE);
    uint8_t* to = (uint8_t*)in_system(2 * PAGE);
    fill_noise((uint32_t*)from, 2 * PAGE / 4, 2);
    static const uint32_t lengths[] = {1, 2, 3, 5, 63, 64, 65, 4095, 4097};
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        memset(to, 0xee, 2 * PAGE);
        put_copy(&queue, to + 3, from + 1, lengths[i]);
        finish(&queue);
        CHECK(memcmp(to + 3, from + 1, lengths[i]) == 0, "%u bytes differ", lengths[i]);
        CHECK(to[2] == 0xee && to[3 + lengths[i]] == 0xee, "more than %u bytes were written", lengths[i]);
    }
    end_queue(&queue);
}

CASE(sdma_ring_wraps_around) {
    open_thunk();
    struct queue queue = make_queue(HSA_QUEUE_SDMA);
    uint32_t* words = (uint32_t*)in_system(2 * PAGE);
    for (uint32_t round = 1; round <= 6000; round++) {
        words[0] = round;
        put_copy(&queue, words + 1024, words, 4);
        if (round % 500 == 0) {
            finish(&queue);
            EQUAL(words[1024], round);
        }
    }
    CHECK(queue.index > 2 * RING, "the ring was not filled twice");
    end_queue(&queue);
}

CASE(sdma_queue_signals_an_event) {
    open_thunk();
    struct queue queue = make_queue(HSA_QUEUE_SDMA);
    HsaEvent* event = make_event(HSA_EVENTTYPE_SIGNAL, false, false);
    for (int round = 0; round < 50; round++) {
        put_event(&queue, event);
        ring_doorbell(&queue);
        GOOD(hsaKmtWaitOnEvent(event, 30000));
    }
    GOOD(hsaKmtDestroyEvent(event));
    end_queue(&queue);
}

CASE(aql_queue_dispatches_a_kernel) {
    open_thunk();
    load_kernels();
    struct queue queue = make_queue(HSA_QUEUE_COMPUTE_AQL);
    uint32_t* out = (uint32_t*)in_system(ITEMS * 4);
    struct squares_arguments* arguments = (struct squares_arguments*)in_system(PAGE);
    int64_t* signal = (int64_t*)in_system(PAGE);
    for (uint32_t round = 0; round < 10; round++) {
        *arguments = (struct squares_arguments){out, round};
        signal[0] = 1; // AMD_SIGNAL_KIND_USER
        signal[1] = 1;
        put_aql(&queue, "squares", arguments, ITEMS / 64, signal);
        ring_doorbell(&queue);
        until((volatile uint32_t*)&signal[1], 0);
        check_squares(out, round);
    }
    // The read index may follow the signal.
    until((volatile uint32_t*)queue.resource.Queue_read_ptr_aql, 10);
    end_queue(&queue);
}

CASE(aql_ring_wraps_around) {
    open_thunk();
    load_kernels();
    struct queue queue = make_queue(HSA_QUEUE_COMPUTE_AQL);
    uint32_t* counter = (uint32_t*)in_system(PAGE);
    struct one_pointer* arguments = (struct one_pointer*)in_system(PAGE);
    arguments->pointer = counter;
    int64_t* signal = (int64_t*)in_system(PAGE);
    signal[0] = 1;
    enum { ROUNDS = 5, PACKETS = RING / 64 / 2 };
    for (int round = 0; round < ROUNDS; round++) {
        signal[1] = PACKETS;
        for (int at = 0; at < PACKETS; at++)
            put_aql(&queue, "count", arguments, 1, signal);
        ring_doorbell(&queue);
        until((volatile uint32_t*)&signal[1], 0);
    }
    EQUAL(*counter, ROUNDS * PACKETS * 64);
    end_queue(&queue);
}

CASE(aql_signal_raises_its_event) {
    open_thunk();
    load_kernels();
    struct queue queue = make_queue(HSA_QUEUE_COMPUTE_AQL);
    ((uint32_t*)queue.indices)[45] = 1 << 3; // amd_queue_t's queue_properties: profiling
    HsaEvent* event = make_event(HSA_EVENTTYPE_SIGNAL, false, false);
    uint32_t* counter = (uint32_t*)in_system(PAGE);
    struct one_pointer* arguments = (struct one_pointer*)in_system(PAGE);
    arguments->pointer = counter;
    int64_t* signal = (int64_t*)in_system(PAGE);
    signal[0] = 1;
    signal[1] = 1;
    signal[2] = (int64_t)event->EventData.HWData2;
    signal[3] = event->EventId;
    put_aql(&queue, "count", arguments, 1, signal);
    ring_doorbell(&queue);
    GOOD(hsaKmtWaitOnEvent(event, 30000));
    EQUAL(signal[1], 0);
    EQUAL(*counter, 64);
    CHECK(signal[4] != 0 && signal[5] >= signal[4], "the kernel began at %lld and ended at %lld", (long long)signal[4],
          (long long)signal[5]);
    GOOD(hsaKmtDestroyEvent(event));
    end_queue(&queue);
}

CASE(queues_of_every_kind_run_side_by_side) {
    static const HSA_QUEUE_TYPE types[] = {HSA_QUEUE_COMPUTE, HSA_QUEUE_SDMA};
    open_thunk();
    load_kernels();
    struct queue queues[8];
    uint32_t* words = (uint32_t*)in_system(PAGE);
    for (unsigned i = 0; i < 8; i++)
        queues[i] = make_queue(types[i % 2]);
    for (uint32_t round = 1; round <= 20; round++) {
        for (unsigned i = 0; i < 8; i++) {
            put_write(&queues[i], words + i, round * 8 + i);
            ring_doorbell(&queues[i]);
        }
        for (unsigned i = 0; i < 8; i++)
            until(words + i, round * 8 + i);
    }
    for (unsigned i = 0; i < 8; i++)
        end_queue(&queues[i]);
}

CASE(queue_of_no_share_waits_for_one) {
    open_thunk();
    struct queue queue;
    GOOD(try_queue(&queue, HSA_QUEUE_COMPUTE, 0, HSA_QUEUE_PRIORITY_NORMAL, RING, NULL));
    volatile uint32_t* word = (volatile uint32_t*)in_system(PAGE);
    put_write(&queue, (void*)word, 5);
    ring_doorbell(&queue);
    usleep(50000);
    EQUAL(*word, 0);
    GOOD(hsaKmtUpdateQueue(queue.resource.QueueId, 100, HSA_QUEUE_PRIORITY_NORMAL, queue.ring, RING, NULL));
    until(word, 5);
    end_queue(&queue);
}

CASE(queue_is_stopped_and_goes_on) {
    open_thunk();
    struct queue queue = make_queue(HSA_QUEUE_COMPUTE);
    volatile uint32_t* word = (volatile uint32_t*)in_system(PAGE);
    for (uint32_t round = 1; round <= 5; round++) {
        GOOD(hsaKmtUpdateQueue(queue.resource.QueueId, 0, HSA_QUEUE_PRIORITY_NORMAL, queue.ring, RING, NULL));
        put_write(&queue, (void*)word, round);
        ring_doorbell(&queue);
        usleep(10000);
        EQUAL(*word, round - 1);
        GOOD(hsaKmtUpdateQueue(queue.resource.QueueId, 100, HSA_QUEUE_PRIORITY_NORMAL, queue.ring, RING, NULL));
        until(word, round);
    }
    end_queue(&queue);
}

CASE(sdma_queue_is_stopped_and_goes_on) {
    open_thunk();
    struct queue queue = make_queue(HSA_QUEUE_SDMA);
    volatile uint32_t* word = (volatile uint32_t*)in_system(PAGE);
    GOOD(hsaKmtUpdateQueue(queue.resource.QueueId, 0, HSA_QUEUE_PRIORITY_NORMAL, queue.ring, RING, NULL));
    put_write(&queue, (void*)word, 9);
    ring_doorbell(&queue);
    usleep(10000);
    EQUAL(*word, 0);
    GOOD(hsaKmtUpdateQueue(queue.resource.QueueId, 100, HSA_QUEUE_PRIORITY_NORMAL, queue.ring, RING, NULL));
    until(word, 9);
    end_queue(&queue);
}

CASE(queue_is_updated_to_nothing_by_a_null_ring) {
    open_thunk();
    struct queue queue = make_queue(HSA_QUEUE_COMPUTE);
    finish(&queue);
    GOOD(hsaKmtUpdateQueue(queue.resource.QueueId, 100, HSA_QUEUE_PRIORITY_NORMAL, NULL, 0, NULL));
    end_queue(&queue);
}

CASE(queue_has_every_priority) {
    open_thunk();
    for (int priority = HSA_QUEUE_PRIORITY_MINIMUM; priority <= HSA_QUEUE_PRIORITY_MAXIMUM; priority++) {
        struct queue queue;
        GOOD(try_queue(&queue, HSA_QUEUE_COMPUTE, 100, (HSA_QUEUE_PRIORITY)priority, RING, NULL));
        finish(&queue);
        GOOD(hsaKmtUpdateQueue(queue.resource.QueueId, 50, (HSA_QUEUE_PRIORITY)-priority, queue.ring, RING, NULL));
        finish(&queue);
        end_queue(&queue);
    }
}

CASE(queue_has_a_mask_of_compute_units) {
    open_thunk();
    load_kernels();
    struct queue queue = make_queue(HSA_QUEUE_COMPUTE);
    /* Each core gets every so manieth bit, and has to have a compute unit left. */
    const unsigned cores = the_gpu.NumXcc > 1 ? the_gpu.NumXcc : 1;
    const unsigned units = the_gpu.NumFComputeCores / the_gpu.NumSIMDPerCU, two = 2 * cores;
    const int has_four = units >= 2 * two && two <= 16;
    const uint32_t first = has_four ? (1u << two) - 1 : UINT32_MAX, second = has_four ? first << two : UINT32_MAX;
    uint32_t masks[][1] = {{first}, {second}, {UINT32_MAX}};
    for (unsigned i = 0; i < 3; i++) {
        GOOD(hsaKmtSetQueueCUMask(queue.resource.QueueId, 32, masks[i]));
        run_squares(&queue, i);
    }
    end_queue(&queue);
}

CASE(queues_come_and_go) {
    open_thunk();
    for (int round = 0; round < 100; round++) {
        struct queue queue = make_queue(round % 2 ? HSA_QUEUE_SDMA : HSA_QUEUE_COMPUTE);
        finish(&queue);
        end_queue(&queue);
    }
}

CASE(queues_are_many) {
    open_thunk();
    enum { QUEUES = 40 };
    struct queue queues[QUEUES];
    for (unsigned i = 0; i < QUEUES; i++)
        queues[i] = make_queue(HSA_QUEUE_COMPUTE);
    for (unsigned i = 0; i < QUEUES; i++) {
        put_write(&queues[i], queues[i].indices + 200, i + 1);
        ring_doorbell(&queues[i]);
    }
    for (unsigned i = 0; i < QUEUES; i++) {
        until((volatile uint32_t*)(queues[i].indices + 200), i + 1);
        end_queue(&queues[i]);
    }
}

CASE(sdma_queues_have_a_limit) {
    open_thunk();
    const unsigned limit = the_gpu.NumSdmaEngines * the_gpu.NumSdmaQueuesPerEngine;
    struct queue queues[64], beyond;
    CHECK(limit > 0 && limit < 64, "%u queues", limit);
    for (unsigned i = 0; i < limit; i++)
        queues[i] = make_queue(HSA_QUEUE_SDMA);
    GIVES(try_queue(&beyond, HSA_QUEUE_SDMA, 100, HSA_QUEUE_PRIORITY_NORMAL, RING, NULL), HSAKMT_STATUS_ERROR);
    for (unsigned i = 0; i < limit; i++)
        finish(&queues[i]);
    end_queue(&queues[0]);
    queues[0] = make_queue(HSA_QUEUE_SDMA);
    finish(&queues[0]);
}

CASE(queue_with_a_waiting_kernel_is_destroyed) {
    open_thunk();
    load_kernels();
    struct queue queue = make_queue(HSA_QUEUE_COMPUTE);
    uint32_t* flag = (uint32_t*)in_system(PAGE);
    struct one_pointer* arguments = (struct one_pointer*)in_system(PAGE);
    arguments->pointer = flag;
    put_dispatch(&queue, "wait_and_answer", arguments, 1);
    ring_doorbell(&queue);
    usleep(20000);
    GOOD(hsaKmtDestroyQueue(queue.resource.QueueId));
    struct queue other = make_queue(HSA_QUEUE_COMPUTE);
    run_squares(&other, 3);
    EQUAL(flag[1], 0);
    end_queue(&other);
}

CASE(waiting_kernel_is_stopped_and_goes_on) {
    open_thunk();
    load_kernels();
    struct queue queue = make_queue(HSA_QUEUE_COMPUTE);
    uint32_t* flag = (uint32_t*)in_system(PAGE);
    struct one_pointer* arguments = (struct one_pointer*)in_system(PAGE);
    arguments->pointer = flag;
    put_dispatch(&queue, "wait_and_answer", arguments, 1);
    ring_doorbell(&queue);
    usleep(20000);
    GOOD(hsaKmtUpdateQueue(queue.resource.QueueId, 0, HSA_QUEUE_PRIORITY_NORMAL, queue.ring, RING, NULL));
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    usleep(20000);
    EQUAL(flag[1], 0);
    GOOD(hsaKmtUpdateQueue(queue.resource.QueueId, 100, HSA_QUEUE_PRIORITY_NORMAL, queue.ring, RING, NULL));
    until(flag + 1, 77);
    end_queue(&queue);
}

CASE(queue_tells_where_its_waves_are_saved) {
    open_thunk();
    struct queue queue = make_queue(HSA_QUEUE_COMPUTE);
    finish(&queue);
    HsaQueueInfo info = {0};
    // Only of a queue that is stopped, as in Linux.
    GIVES(hsaKmtGetQueueInfo(queue.resource.QueueId, &info), HSAKMT_STATUS_ERROR);
    GOOD(hsaKmtUpdateQueue(queue.resource.QueueId, 0, HSA_QUEUE_PRIORITY_NORMAL, queue.ring, RING, NULL));
    GOOD(hsaKmtGetQueueInfo(queue.resource.QueueId, &info));
    CHECK(info.UserContextSaveArea != NULL && info.SaveAreaHeader != NULL, "no area");
    CHECK(info.NumCUAssigned > 0 && info.CUMaskInfo != NULL, "no mask");
    end_queue(&queue);
}

static void* use_a_queue(void* argument) {
    struct queue* queue = (struct queue*)argument;
    uint32_t* words = (uint32_t*)(queue->indices + 128);
    for (uint32_t round = 1; round <= 200; round++) {
        put_write(queue, words, round);
        ring_doorbell(queue);
        until(words, round);
    }
    return NULL;
}

CASE(threads_have_a_queue_each) {
    open_thunk();
    struct queue queues[4];
    pthread_t threads[4];
    for (unsigned i = 0; i < 4; i++)
        queues[i] = make_queue(i % 2 ? HSA_QUEUE_SDMA : HSA_QUEUE_COMPUTE);
    for (unsigned i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, use_a_queue, &queues[i]) == 0, "no thread");
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        end_queue(&queues[i]);
    }
}

CASE(refused_queues) {
    open_thunk();
    struct queue queue;
    static const struct {
        HSA_QUEUE_TYPE type;
        HSAuint32 percentage;
        int priority;
        HSAuint64 size;
        HSAKMT_STATUS status;
    } cases[] = {
        {HSA_QUEUE_COMPUTE, 101, 0, RING, HSAKMT_STATUS_ERROR},
        {HSA_QUEUE_COMPUTE, 100, 4, RING, HSAKMT_STATUS_INVALID_PARAMETER},
        {HSA_QUEUE_COMPUTE, 100, -4, RING, HSAKMT_STATUS_INVALID_PARAMETER},
        {HSA_QUEUE_COMPUTE, 100, 0, RING - 1, HSAKMT_STATUS_ERROR},
        {HSA_QUEUE_COMPUTE, 100, 0, 3 * PAGE, HSAKMT_STATUS_ERROR},
        {HSA_QUEUE_MULTIMEDIA_DECODE, 100, 0, RING, HSAKMT_STATUS_INVALID_PARAMETER},
        {HSA_QUEUE_DMA_AQL, 100, 0, RING, HSAKMT_STATUS_INVALID_PARAMETER},
        /* Last: where there are engines for it, it is made. */
        {HSA_QUEUE_SDMA_XGMI, 100, 0, RING, HSAKMT_STATUS_ERROR},
    };
    const unsigned count = sizeof cases / sizeof *cases - (the_gpu.NumSdmaXgmiEngines > 0);
    for (unsigned i = 0; i < count; i++) {
        HSAKMT_STATUS status = try_queue(&queue, cases[i].type, cases[i].percentage, (HSA_QUEUE_PRIORITY)cases[i].priority,
                                         cases[i].size, NULL);
        CHECK(status == cases[i].status, "row %u gave status %d, not %d", i, status, cases[i].status);
    }
    HsaQueueResource resource = {0};
    GIVES(hsaKmtCreateQueue(99, HSA_QUEUE_COMPUTE, 100, HSA_QUEUE_PRIORITY_NORMAL, queue.ring, RING, NULL, &resource),
          HSAKMT_STATUS_INVALID_NODE_UNIT);
    GIVES(hsaKmtCreateQueue(gpu_node, HSA_QUEUE_COMPUTE, 100, HSA_QUEUE_PRIORITY_NORMAL, NULL, RING, NULL, &resource),
          HSAKMT_STATUS_ERROR);
}

CASE(refused_changes_of_queues) {
    open_thunk();
    struct queue queue = make_queue(HSA_QUEUE_COMPUTE);
    HSA_QUEUEID id = queue.resource.QueueId;
    uint32_t mask[2] = {1, 0};
    GIVES(hsaKmtUpdateQueue(id, 101, HSA_QUEUE_PRIORITY_NORMAL, queue.ring, RING, NULL), HSAKMT_STATUS_ERROR);
    GIVES(hsaKmtUpdateQueue(id, 100, (HSA_QUEUE_PRIORITY)4, queue.ring, RING, NULL), HSAKMT_STATUS_INVALID_PARAMETER);
    GIVES(hsaKmtUpdateQueue(id, 100, HSA_QUEUE_PRIORITY_NORMAL, queue.ring, RING + 1, NULL), HSAKMT_STATUS_ERROR);
    GIVES(hsaKmtUpdateQueue(0, 100, HSA_QUEUE_PRIORITY_NORMAL, queue.ring, RING, NULL), HSAKMT_STATUS_INVALID_PARAMETER);
    GIVES(hsaKmtSetQueueCUMask(id, 0, mask), HSAKMT_STATUS_INVALID_PARAMETER);
    GIVES(hsaKmtSetQueueCUMask(id, 31, mask), HSAKMT_STATUS_INVALID_PARAMETER);
    GIVES(hsaKmtSetQueueCUMask(id, 32, NULL), HSAKMT_STATUS_INVALID_PARAMETER);
    GIVES(hsaKmtDestroyQueue(0), HSAKMT_STATUS_INVALID_PARAMETER);
    GIVES(hsaKmtGetQueueInfo(id, NULL), HSAKMT_STATUS_INVALID_PARAMETER);
    finish(&queue);
    end_queue(&queue);
}
