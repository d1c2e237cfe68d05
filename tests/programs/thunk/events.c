// Events: of the program's own, of the GPU's faults, and how one waits for them.
#include "thunk_cases.h"

#include <pthread.h>

CASE(event_is_set_waited_for_and_resets_itself) {
    open_thunk();
    HsaEvent* event = make_event(HSA_EVENTTYPE_SIGNAL, false, false);
    GIVES(hsaKmtWaitOnEvent(event, 0), HSAKMT_STATUS_WAIT_TIMEOUT);
    GOOD(hsaKmtSetEvent(event));
    GOOD(hsaKmtWaitOnEvent(event, 0));
    GIVES(hsaKmtWaitOnEvent(event, 0), HSAKMT_STATUS_WAIT_TIMEOUT);
    GOOD(hsaKmtQueryEventState(event));
    GOOD(hsaKmtDestroyEvent(event));
    close_thunk();
}

CASE(event_of_manual_reset_stays) {
    open_thunk();
    HsaEvent* event = make_event(HSA_EVENTTYPE_SIGNAL, true, false);
    GOOD(hsaKmtSetEvent(event));
    GOOD(hsaKmtWaitOnEvent(event, 0));
    GOOD(hsaKmtWaitOnEvent(event, 0));
    GOOD(hsaKmtResetEvent(event));
    GIVES(hsaKmtWaitOnEvent(event, 0), HSAKMT_STATUS_WAIT_TIMEOUT);
    GOOD(hsaKmtDestroyEvent(event));
}

CASE(event_is_made_signaled) {
    open_thunk();
    HsaEvent* event = make_event(HSA_EVENTTYPE_SIGNAL, true, true);
    GOOD(hsaKmtWaitOnEvent(event, 0));
    GOOD(hsaKmtDestroyEvent(event));
}

CASE(wait_ends_when_its_time_is_over) {
    open_thunk();
    HsaEvent* event = make_event(HSA_EVENTTYPE_SIGNAL, false, false);
    double begin = seconds();
    GIVES(hsaKmtWaitOnEvent(event, 100), HSAKMT_STATUS_WAIT_TIMEOUT);
    CHECK(seconds() - begin >= 0.099, "it waited for %f s", seconds() - begin);
    GOOD(hsaKmtDestroyEvent(event));
}

static void* set_later(void* event) {
    usleep(20000);
    GOOD(hsaKmtSetEvent((HsaEvent*)event));
    return NULL;
}

CASE(wait_ends_when_another_thread_sets_the_event) {
    open_thunk();
    HsaEvent* event = make_event(HSA_EVENTTYPE_SIGNAL, false, false);
    pthread_t thread;
    for (int round = 0; round < 5; round++) {
        pthread_create(&thread, NULL, set_later, event);
        GOOD(hsaKmtWaitOnEvent(event, HSA_EVENTTIMEOUT_INFINITE));
        pthread_join(thread, NULL);
    }
    GOOD(hsaKmtDestroyEvent(event));
}

CASE(wait_for_any_of_several) {
    open_thunk();
    HsaEvent* events[5];
    for (int i = 0; i < 5; i++)
        events[i] = make_event(HSA_EVENTTYPE_SIGNAL, false, false);
    GIVES(hsaKmtWaitOnMultipleEvents(events, 5, false, 10), HSAKMT_STATUS_WAIT_TIMEOUT);
    for (int i = 0; i < 5; i++) {
        GOOD(hsaKmtSetEvent(events[i]));
        GOOD(hsaKmtWaitOnMultipleEvents(events, 5, false, 1000));
        GIVES(hsaKmtWaitOnMultipleEvents(events, 5, false, 0), HSAKMT_STATUS_WAIT_TIMEOUT);
    }
    for (int i = 0; i < 5; i++)
        GOOD(hsaKmtDestroyEvent(events[i]));
}

CASE(wait_for_all_of_several) {
    open_thunk();
    HsaEvent* events[5];
    for (int i = 0; i < 5; i++)
        events[i] = make_event(HSA_EVENTTYPE_SIGNAL, i % 2, false);
    for (int i = 0; i < 5; i++) {
        GIVES(hsaKmtWaitOnMultipleEvents(events, 5, true, 5), HSAKMT_STATUS_WAIT_TIMEOUT);
        GOOD(hsaKmtSetEvent(events[i]));
    }
    GOOD(hsaKmtWaitOnMultipleEvents(events, 5, true, 1000));
    for (int i = 0; i < 5; i++)
        GOOD(hsaKmtDestroyEvent(events[i]));
}

CASE(age_of_an_event_grows) {
    open_thunk();
    HsaEvent* event = make_event(HSA_EVENTTYPE_SIGNAL, false, false);
    uint64_t age = 1;
    // Of the age that the caller knows, it waits; of another, it tells the age at once.
    GIVES(hsaKmtWaitOnEvent_Ext(event, 10, &age), HSAKMT_STATUS_WAIT_TIMEOUT);
    for (uint64_t round = 2; round < 6; round++) {
        GOOD(hsaKmtSetEvent(event));
        GOOD(hsaKmtWaitOnEvent_Ext(event, 1000, &age));
        EQUAL(age, round);
    }
    age = 3;
    GOOD(hsaKmtWaitOnEvent_Ext(event, 1000, &age));
    EQUAL(age, 5);
    GOOD(hsaKmtDestroyEvent(event));
}

CASE(events_have_a_limit) {
    open_thunk();
    enum { MANY = 5000 };
    static HsaEvent* events[MANY];
    HsaEventDescriptor description = {.EventType = HSA_EVENTTYPE_SIGNAL, .NodeId = gpu_node};
    unsigned count = 0;
    while (count < MANY && hsaKmtCreateEvent(&description, false, false, &events[count]) == HSAKMT_STATUS_SUCCESS)
        count++;
    // KFD_SIGNAL_EVENT_LIMIT, less number 0, which Linux keeps back.
    EQUAL(count, 4095);
    GOOD(hsaKmtSetEvent(events[count - 1]));
    GOOD(hsaKmtWaitOnEvent(events[count - 1], 1000));
    GOOD(hsaKmtDestroyEvent(events[0]));
    GOOD(hsaKmtCreateEvent(&description, false, true, &events[0]));
    GOOD(hsaKmtWaitOnEvent(events[0], 0));
    for (unsigned i = 0; i < count; i++)
        GOOD(hsaKmtDestroyEvent(events[i]));
}

CASE(events_have_numbers_and_slots_of_their_own) {
    open_thunk();
    HsaEvent* events[64];
    for (int i = 0; i < 64; i++) {
        events[i] = make_event(HSA_EVENTTYPE_SIGNAL, false, false);
        EQUAL(events[i]->EventData.HWData3, events[i]->EventId);
        for (int other = 0; other < i; other++)
            CHECK(events[other]->EventId != events[i]->EventId &&
                      events[other]->EventData.HWData2 != events[i]->EventData.HWData2, "%d and %d are one", other, i);
    }
    for (int i = 0; i < 64; i++)
        GOOD(hsaKmtDestroyEvent(events[i]));
}

CASE(slot_without_an_interrupt_signals_nothing) {
    open_thunk();
    struct queue queue = make_queue(HSA_QUEUE_COMPUTE);
    HsaEvent* quiet = make_event(HSA_EVENTTYPE_SIGNAL, false, false);
    HsaEvent* other = make_event(HSA_EVENTTYPE_SIGNAL, false, false);
    put_event(&queue, other);
    ring_doorbell(&queue);
    GOOD(hsaKmtWaitOnEvent(other, 30000));
    GIVES(hsaKmtWaitOnEvent(quiet, 10), HSAKMT_STATUS_WAIT_TIMEOUT);
    end_queue(&queue);
}

CASE(events_of_the_system_cannot_be_set) {
    open_thunk();
    static const HSA_EVENTTYPE types[] = {HSA_EVENTTYPE_MEMORY, HSA_EVENTTYPE_HW_EXCEPTION, HSA_EVENTTYPE_NODECHANGE,
                                          HSA_EVENTTYPE_DEVICESTATECHANGE};
    for (unsigned i = 0; i < sizeof types / sizeof *types; i++) {
        HsaEvent* event = make_event(types[i], true, false);
        GIVES(hsaKmtSetEvent(event), HSAKMT_STATUS_ERROR);
        GIVES(hsaKmtResetEvent(event), HSAKMT_STATUS_ERROR);
        GIVES(hsaKmtWaitOnEvent(event, 0), HSAKMT_STATUS_WAIT_TIMEOUT);
        GOOD(hsaKmtDestroyEvent(event));
    }
}

CASE(refused_events) {
    open_thunk();
    HsaEventDescriptor description = {.EventType = HSA_EVENTTYPE_MAXID, .NodeId = gpu_node};
    HsaEvent* event = NULL;
    GIVES(hsaKmtCreateEvent(&description, false, false, &event), HSAKMT_STATUS_INVALID_PARAMETER);
    GIVES(hsaKmtSetEvent(NULL), HSAKMT_STATUS_INVALID_HANDLE);
    GIVES(hsaKmtResetEvent(NULL), HSAKMT_STATUS_INVALID_HANDLE);
    GIVES(hsaKmtDestroyEvent(NULL), HSAKMT_STATUS_INVALID_HANDLE);
    GIVES(hsaKmtWaitOnEvent(NULL, 0), HSAKMT_STATUS_INVALID_HANDLE);
    event = make_event(HSA_EVENTTYPE_SIGNAL, false, false);
    HsaEvent stale = *event;
    GOOD(hsaKmtDestroyEvent(event));
    GIVES(hsaKmtSetEvent(&stale), HSAKMT_STATUS_ERROR);
    GIVES(hsaKmtResetEvent(&stale), HSAKMT_STATUS_ERROR);
    GIVES(hsaKmtWaitOnEvent(&stale, 0), HSAKMT_STATUS_ERROR);
}

// Lets the GPU write where it must not, and gives what the event says about it.
static HsaMemoryAccessFault fault_at(HSA_QUEUE_TYPE type, void* address) {
    HsaEvent* event = make_event(HSA_EVENTTYPE_MEMORY, false, false);
    struct queue queue = make_queue(type);
    put_write(&queue, address, 1);
    ring_doorbell(&queue);
    GOOD(hsaKmtWaitOnEvent(event, 30000));
    return event->EventData.EventData.MemoryAccessFault;
}

CASE(fault_of_a_packet_names_its_address) {
    open_thunk();
    const uintptr_t nowhere = 0x600000000000;
    HsaMemoryAccessFault fault = fault_at(HSA_QUEUE_COMPUTE, (void*)(nowhere + 0x123000));
    EQUAL(fault.VirtualAddress, nowhere + 0x123000);
    EQUAL(fault.NodeId, gpu_node);
    EQUAL(fault.Failure.NotPresent, 1);
    EQUAL(fault.Failure.ReadOnly, 0);
}

CASE(fault_of_a_copy_engine_names_its_address) {
    open_thunk();
    const uintptr_t nowhere = 0x600000000000;
    HsaMemoryAccessFault fault = fault_at(HSA_QUEUE_SDMA, (void*)nowhere);
    EQUAL(fault.VirtualAddress, nowhere);
    EQUAL(fault.Failure.NotPresent, 1);
}

CASE(fault_of_memory_that_was_unmapped) {
    open_thunk();
    void* memory = in_vram(PAGE);
    GOOD(hsaKmtUnmapMemoryToGPU(memory));
    HsaMemoryAccessFault fault = fault_at(HSA_QUEUE_COMPUTE, memory);
    EQUAL(fault.VirtualAddress, (uintptr_t)memory);
    EQUAL(fault.Failure.NotPresent, 1);
}

CASE(fault_of_memory_that_is_read_only) {
    open_thunk();
    HsaMemFlags flags = vram_flags();
    flags.ui32.ReadOnly = 1;
    void* memory = allocate(gpu_node, PAGE, flags);
    HsaMemoryAccessFault fault = fault_at(HSA_QUEUE_COMPUTE, memory);
    EQUAL(fault.VirtualAddress, (uintptr_t)memory);
    EQUAL(fault.Failure.ReadOnly, 1);
}
