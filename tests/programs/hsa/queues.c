// Queues and packets: producers, full rings, barriers, stops, ends, and what the runtime says about bad packets.
#include "hsa_cases.h"

CASE(queue_is_what_was_asked_for) {
    start();
    hsa_queue_t *multi = NULL, *single = NULL;
    GOOD(hsa_queue_create(gpu, 128, HSA_QUEUE_TYPE_MULTI, NULL, NULL, UINT32_MAX, UINT32_MAX, &multi));
    GOOD(hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_SINGLE, NULL, NULL, UINT32_MAX, UINT32_MAX, &single));
    EQUAL(multi->size, 128);
    EQUAL(single->size, 64);
    EQUAL(multi->type, HSA_QUEUE_TYPE_MULTI);
    CHECK(multi->id != single->id && multi->base_address != single->base_address, "they are one");
    CHECK(multi->features & HSA_QUEUE_FEATURE_KERNEL_DISPATCH, "features %#x", multi->features);
    GOOD(hsa_queue_destroy(single));
    GOOD(hsa_queue_destroy(multi));
    GOOD(hsa_shut_down());
}

CASE(ring_is_filled_again_and_again) {
    start();
    hsa_executable_t executable = load();
    struct kernel kernel = find(executable, "count");
    hsa_queue_t* queue = make_queue(64);
    uint32_t* counter = (uint32_t*)allocate(fine, PAGE);
    void* arguments = arguments_of(&counter, sizeof counter);
    hsa_signal_t signal = make_signal(1000);
    for (int i = 0; i < 1000; i++)
        dispatch(queue, kernel, arguments, 64, 64, signal);
    wait_for(signal, 0);
    EQUAL(*counter, 64000);
    EQUAL(hsa_queue_load_write_index_relaxed(queue), 1000);
    // The read index may follow the signal.
    while (hsa_queue_load_read_index_relaxed(queue) != 1000)
        usleep(100);
}

struct producer {
    hsa_queue_t* queue;
    struct kernel kernel;
    void* arguments;
    hsa_signal_t signal;
};
static void* produce(void* argument) {
    struct producer* producer = (struct producer*)argument;
    for (int i = 0; i < 100; i++)
        dispatch(producer->queue, producer->kernel, producer->arguments, 64, 64, producer->signal);
    return NULL;
}

CASE(threads_fill_one_queue) {
    start();
    hsa_executable_t executable = load();
    uint32_t* counter = (uint32_t*)allocate(fine, PAGE);
    struct producer producer = {make_queue(64), find(executable, "count"), arguments_of(&counter, sizeof counter),
                                make_signal(400)};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, produce, &producer);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    wait_for(producer.signal, 0);
    EQUAL(*counter, 400 * 64);
}

CASE(doorbell_rings_once_for_many) {
    start();
    hsa_executable_t executable = load();
    struct kernel kernel = find(executable, "count");
    hsa_queue_t* queue = make_queue(256);
    uint32_t* counter = (uint32_t*)allocate(fine, PAGE);
    hsa_signal_t signal = make_signal(200);
    hsa_kernel_dispatch_packet_t packet = packet_of(kernel, arguments_of(&counter, sizeof counter), 64, 64, signal);
    uint64_t last = 0;
    for (int i = 0; i < 200; i++)
        last = put(queue, &packet, HSA_PACKET_TYPE_KERNEL_DISPATCH, 0, false);
    // What the GPU has seen of the write index without a doorbell is its own affair.
    hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)last);
    wait_for(signal, 0);
    EQUAL(*counter, 200 * 64);
}

CASE(packet_that_is_not_ready_stops_the_rest) {
    start();
    hsa_executable_t executable = load();
    struct kernel kernel = find(executable, "count");
    hsa_queue_t* queue = make_queue(64);
    uint32_t* counter = (uint32_t*)allocate(fine, PAGE);
    hsa_signal_t signal = make_signal(2);
    void* arguments = arguments_of(&counter, sizeof counter);
    uint64_t first = hsa_queue_add_write_index_relaxed(queue, 1);
    dispatch(queue, kernel, arguments, 64, 64, signal);
    usleep(10000);
    EQUAL(*counter, 0);
    hsa_kernel_dispatch_packet_t packet = packet_of(kernel, arguments, 64, 64, signal);
    char* slot = (char*)queue->base_address + first * 64;
    memcpy(slot + 2, (char*)&packet + 2, 62);
    __atomic_store_n((uint16_t*)slot, HSA_PACKET_TYPE_KERNEL_DISPATCH | BARRIER, __ATOMIC_RELEASE);
    hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)first);
    wait_for(signal, 0);
    EQUAL(*counter, 128);
}

// A barrier packet over signals; `any` of them, or all.
static hsa_signal_t put_barrier(hsa_queue_t* queue, bool any, hsa_signal_t* signals, unsigned count) {
    hsa_signal_t done = make_signal(1);
    hsa_barrier_and_packet_t packet = {.completion_signal = done};
    for (unsigned i = 0; i < count; i++)
        packet.dep_signal[i] = signals[i];
    put(queue, &packet, any ? HSA_PACKET_TYPE_BARRIER_OR : HSA_PACKET_TYPE_BARRIER_AND, BARRIER, true);
    return done;
}

CASE(barrier_waits_for_all_of_its_signals) {
    start();
    hsa_queue_t* queue = make_queue(64);
    hsa_signal_t signals[5];
    for (int i = 0; i < 5; i++)
        signals[i] = make_signal(1);
    hsa_signal_t done = put_barrier(queue, false, signals, 5);
    for (int i = 0; i < 5; i++) {
        usleep(2000);
        EQUAL(hsa_signal_load_scacquire(done), 1);
        hsa_signal_store_screlease(signals[(i * 2) % 5], 0);
    }
    wait_for(done, 0);
}

CASE(barrier_waits_for_any_of_its_signals) {
    start();
    hsa_queue_t* queue = make_queue(64);
    for (int round = 0; round < 5; round++) {
        hsa_signal_t signals[5];
        for (int i = 0; i < 5; i++)
            signals[i] = make_signal(1);
        hsa_signal_t done = put_barrier(queue, true, signals, 5);
        usleep(2000);
        EQUAL(hsa_signal_load_scacquire(done), 1);
        hsa_signal_store_screlease(signals[round], 0);
        wait_for(done, 0);
    }
}

CASE(barrier_without_signals_passes) {
    start();
    hsa_queue_t* queue = make_queue(64);
    wait_for(put_barrier(queue, false, NULL, 0), 0);
    wait_for(put_barrier(queue, true, NULL, 0), 0);
}

CASE(queues_wait_for_each_other) {
    start();
    hsa_executable_t executable = load();
    struct kernel kernel = find(executable, "count");
    hsa_queue_t *one = make_queue(64), *two = make_queue(64);
    uint32_t* counter = (uint32_t*)allocate(fine, PAGE);
    void* arguments = arguments_of(&counter, sizeof counter);
    for (int round = 1; round <= 20; round++) {
        hsa_signal_t first = make_signal(1), second = make_signal(1);
        put_barrier(two, false, &first, 1);
        dispatch(two, kernel, arguments, 64, 64, second);
        dispatch(one, kernel, arguments, 64, 64, first);
        wait_for(second, 0);
        EQUAL(*counter, round * 128);
    }
}

CASE(kernels_of_two_queues_run_at_once) {
    start();
    hsa_executable_t executable = load();
    hsa_queue_t *one = make_queue(64), *two = make_queue(64);
    uint32_t *flag = (uint32_t*)allocate(fine, PAGE), *counter = (uint32_t*)allocate(fine, PAGE);
    hsa_signal_t waiting = make_signal(1);
    dispatch(one, find(executable, "wait_and_answer"), arguments_of(&flag, sizeof flag), 1, 64, waiting);
    run(two, find(executable, "count"), arguments_of(&counter, sizeof counter), 640, 64);
    EQUAL(*counter, 640);
    EQUAL(hsa_signal_load_scacquire(waiting), 1);
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    wait_for(waiting, 0);
    EQUAL(flag[1], 77);
}

CASE(queue_is_made_inactive) {
    start();
    hsa_executable_t executable = load();
    hsa_queue_t *queue = make_queue(64), *other = make_queue(64);
    uint32_t* counter = (uint32_t*)allocate(fine, PAGE);
    void* arguments = arguments_of(&counter, sizeof counter);
    struct kernel kernel = find(executable, "count");
    run(queue, kernel, arguments, 64, 64);
    GOOD(hsa_queue_inactivate(queue));
    hsa_signal_t signal = make_signal(1);
    dispatch(queue, kernel, arguments, 64, 64, signal);
    run(other, kernel, arguments, 64, 64);
    usleep(10000);
    EQUAL(*counter, 128);
    EQUAL(hsa_signal_load_scacquire(signal), 1);
    GOOD(hsa_queue_destroy(queue));
}

CASE(queue_is_destroyed_with_work_to_do) {
    start();
    hsa_executable_t executable = load();
    hsa_queue_t *queue = make_queue(64), *other = make_queue(64);
    uint32_t *flag = (uint32_t*)allocate(fine, PAGE), *counter = (uint32_t*)allocate(fine, PAGE);
    void* arguments = arguments_of(&counter, sizeof counter);
    dispatch(queue, find(executable, "wait_and_answer"), arguments_of(&flag, sizeof flag), 1, 64, make_signal(1));
    for (int i = 0; i < 10; i++)
        dispatch(queue, find(executable, "count"), arguments, 64, 64, make_signal(1));
    usleep(10000);
    GOOD(hsa_queue_destroy(queue));
    run(other, find(executable, "count"), arguments, 64, 64);
    EQUAL(*counter, 64);
    EQUAL(flag[1], 0);
}

CASE(queue_has_priorities) {
    start();
    hsa_executable_t executable = load();
    hsa_queue_t* queue = make_queue(64);
    uint32_t* counter = (uint32_t*)allocate(fine, PAGE);
    void* arguments = arguments_of(&counter, sizeof counter);
    const hsa_amd_queue_priority_t priorities[] = {HSA_AMD_QUEUE_PRIORITY_LOW, HSA_AMD_QUEUE_PRIORITY_HIGH,
                                                   HSA_AMD_QUEUE_PRIORITY_NORMAL};
    for (unsigned i = 0; i < 3; i++) {
        GOOD(hsa_amd_queue_set_priority(queue, priorities[i]));
        run(queue, find(executable, "count"), arguments, 64, 64);
    }
    EQUAL(*counter, 192);
    GIVES(hsa_amd_queue_set_priority(queue, (hsa_amd_queue_priority_t)77), HSA_STATUS_ERROR_INVALID_ARGUMENT);
}

CASE(queue_has_a_mask_of_compute_units) {
    start();
    hsa_executable_t executable = load();
    hsa_queue_t* queue = make_queue(64);
    uint32_t *counter = (uint32_t*)allocate(fine, PAGE), mask[4] = {0}, few[1] = {0x3};
    void* arguments = arguments_of(&counter, sizeof counter);
    GOOD(hsa_amd_queue_cu_set_mask(queue, 32, few));
    GOOD(hsa_amd_queue_cu_get_mask(queue, 32, mask));
    // ROCr 7.2 sets the mask and tells the one from before (`AqlQueue::SetCUMasking` returns without keeping it).
    uint32_t units = 0;
    GOOD(hsa_agent_get_info(gpu, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT, &units));
    EQUAL(mask[0], ROCM_MAJOR < 7 ? 3 : (1ull << units) - 1);
    run(queue, find(executable, "count"), arguments, 6400, 64);
    EQUAL(*counter, 6400);
    GIVES(hsa_amd_queue_cu_set_mask(queue, 31, few), HSA_STATUS_ERROR_INVALID_ARGUMENT);
}

CASE(queues_come_and_go) {
    start();
    hsa_executable_t executable = load();
    struct kernel kernel = find(executable, "count");
    uint32_t* counter = (uint32_t*)allocate(fine, PAGE);
    void* arguments = arguments_of(&counter, sizeof counter);
    for (int round = 0; round < 50; round++) {
        hsa_queue_t* queue = make_queue(64);
        run(queue, kernel, arguments, 64, 64);
        GOOD(hsa_queue_destroy(queue));
    }
    EQUAL(*counter, 50 * 64);
}

CASE(queues_are_many) {
    start();
    enum { MANY = 24 };
    hsa_executable_t executable = load();
    struct kernel kernel = find(executable, "count");
    uint32_t* counter = (uint32_t*)allocate(fine, PAGE);
    void* arguments = arguments_of(&counter, sizeof counter);
    hsa_queue_t* queues[MANY];
    hsa_signal_t signal = make_signal(MANY * 10);
    for (int i = 0; i < MANY; i++)
        queues[i] = make_queue(64);
    for (int round = 0; round < 10; round++)
        for (int i = 0; i < MANY; i++)
            dispatch(queues[i], kernel, arguments, 64, 64, signal);
    wait_for(signal, 0);
    EQUAL(*counter, MANY * 10 * 64);
    for (int i = 0; i < MANY; i++)
        GOOD(hsa_queue_destroy(queues[i]));
}

CASE(soft_queue_is_the_programs_own) {
    start();
    hsa_region_t region = {fine.handle};
    hsa_signal_t doorbell = make_signal(0);
    hsa_queue_t* queue = NULL;
    GOOD(hsa_soft_queue_create(region, 16, HSA_QUEUE_TYPE_MULTI, HSA_QUEUE_FEATURE_AGENT_DISPATCH, doorbell, &queue));
    EQUAL(queue->size, 16);
    EQUAL(queue->doorbell_signal.handle, doorbell.handle);
    for (uint64_t i = 0; i < 40; i++) {
        uint64_t index = hsa_queue_add_write_index_scacq_screl(queue, 1);
        EQUAL(index, i);
        ((hsa_agent_dispatch_packet_t*)queue->base_address)[index % 16].arg[0] = i * 3;
        hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)index);
        EQUAL(((hsa_agent_dispatch_packet_t*)queue->base_address)[index % 16].arg[0], i * 3);
        hsa_queue_store_read_index_screlease(queue, index + 1);
    }
    EQUAL(hsa_queue_load_read_index_scacquire(queue), 40);
    EQUAL(hsa_queue_cas_write_index_scacq_screl(queue, 40, 50), 40);
    EQUAL(hsa_queue_load_write_index_scacquire(queue), 50);
    GOOD(hsa_queue_destroy(queue));
}

CASE(dispatches_have_times) {
    start();
    hsa_executable_t executable = load();
    hsa_queue_t* queue = make_queue(64);
    uint32_t* counter = (uint32_t*)allocate(fine, PAGE);
    void* arguments = arguments_of(&counter, sizeof counter);
    GOOD(hsa_amd_profiling_set_profiler_enabled(queue, 1));
    uint64_t last = 0, before = 0, after = 0;
    GOOD(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &before));
    for (int i = 0; i < 5; i++) {
        hsa_signal_t signal = make_signal(1);
        hsa_amd_profiling_dispatch_time_t time = {0};
        dispatch(queue, find(executable, "count"), arguments, 6400, 64, signal);
        wait_for(signal, 0);
        GOOD(hsa_amd_profiling_get_dispatch_time(gpu, signal, &time));
        CHECK(time.start >= last && time.end >= time.start, "from %llu to %llu", (unsigned long long)time.start,
              (unsigned long long)time.end);
        last = time.start;
    }
    GOOD(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &after));
    CHECK(last > 0 && after > before, "no time");
}

static volatile int error_status, error_calls;
static void note_error(hsa_status_t status, hsa_queue_t* queue, void* data) {
    CHECK(queue && data == &error_status, "not the queue's own");
    error_status = (int)status;
    __atomic_fetch_add(&error_calls, 1, __ATOMIC_RELEASE);
}
static hsa_queue_t* queue_with_callback(void) {
    hsa_queue_t* queue = NULL;
    GOOD(hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_MULTI, note_error, (void*)&error_status, UINT32_MAX, UINT32_MAX, &queue));
    return queue;
}
static void expect_error(hsa_status_t status) {
    while (!__atomic_load_n(&error_calls, __ATOMIC_ACQUIRE))
        usleep(100);
    CHECK(error_status == (int)status, "it said %s, not %s", name_of((hsa_status_t)error_status), name_of(status));
    // Others work as before.
    hsa_executable_t executable = load();
    uint32_t* counter = (uint32_t*)allocate(fine, PAGE);
    run(make_queue(64), find(executable, "count"), arguments_of(&counter, sizeof counter), 64, 64);
    EQUAL(*counter, 64);
}

CASE(packet_of_no_type_is_told) {
    start();
    hsa_kernel_dispatch_packet_t packet = {0};
    put(queue_with_callback(), &packet, 100, 0, true);
    expect_error(HSA_STATUS_ERROR_INVALID_PACKET_FORMAT);
}

// Dispatches `count` with one thing wrong.
static void wrong_dispatch(void (*spoil)(hsa_kernel_dispatch_packet_t*), hsa_status_t status) {
    start();
    hsa_executable_t executable = load();
    uint32_t* counter = (uint32_t*)allocate(fine, PAGE);
    hsa_kernel_dispatch_packet_t packet =
        packet_of(find(executable, "count"), arguments_of(&counter, sizeof counter), 64, 64, make_signal(1));
    spoil(&packet);
    put(queue_with_callback(), &packet, HSA_PACKET_TYPE_KERNEL_DISPATCH, 0, true);
    expect_error(status);
    EQUAL(*counter, 0);
}
static void no_dimensions(hsa_kernel_dispatch_packet_t* packet) { packet->setup = 0; }
static void much_group_memory(hsa_kernel_dispatch_packet_t* packet) { packet->group_segment_size = 1 << 20; }
static void large_groups(hsa_kernel_dispatch_packet_t* packet) { packet->workgroup_size_x = 2048; }

CASE(dispatch_without_dimensions_is_told) {
    wrong_dispatch(no_dimensions, HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS);
}

CASE(dispatch_with_too_much_group_memory_is_told) {
    wrong_dispatch(much_group_memory, HSA_STATUS_ERROR_INVALID_ALLOCATION);
}

CASE(dispatch_of_too_large_groups_is_told) {
    wrong_dispatch(large_groups, HSA_STATUS_ERROR_INVALID_ARGUMENT);
}

CASE(operation_that_the_gpu_does_not_have_is_told) {
    start();
    hsa_executable_t executable = load();
    uint32_t* out = (uint32_t*)allocate(fine, PAGE);
    dispatch(queue_with_callback(), find(executable, "illegal"), arguments_of(&out, sizeof out), 1, 64, make_signal(1));
    expect_error((hsa_status_t)HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION);
    EQUAL(out[1], 0);
}

CASE(refused_queues) {
    start();
    hsa_queue_t* queue = NULL;
    hsa_agent_t none = {0};
    GIVES(hsa_queue_create(gpu, 100, HSA_QUEUE_TYPE_MULTI, NULL, NULL, 0, 0, &queue), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    GIVES(hsa_queue_create(gpu, 0, HSA_QUEUE_TYPE_MULTI, NULL, NULL, 0, 0, &queue), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    GIVES(hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_MULTI, NULL, NULL, 0, 0, NULL), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    GIVES(hsa_queue_create(cpu, 64, HSA_QUEUE_TYPE_MULTI, NULL, NULL, 0, 0, &queue), HSA_STATUS_ERROR);
    GIVES(hsa_queue_create(none, 64, HSA_QUEUE_TYPE_MULTI, NULL, NULL, 0, 0, &queue), HSA_STATUS_ERROR_INVALID_AGENT);
    GIVES(hsa_queue_destroy(NULL), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    GIVES(hsa_queue_inactivate(NULL), HSA_STATUS_ERROR_INVALID_ARGUMENT);
}
