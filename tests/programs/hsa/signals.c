// Signals: conditions, atomics, handlers, and signals of other processes.
#include "hsa_cases.h"

CASE(signal_has_a_value) {
    start();
    hsa_signal_t signal = make_signal(5);
    EQUAL(hsa_signal_load_relaxed(signal), 5);
    hsa_signal_store_screlease(signal, -9);
    EQUAL(hsa_signal_load_scacquire(signal), -9);
    hsa_signal_silent_store_relaxed(signal, INT64_MAX);
    EQUAL(hsa_signal_load_relaxed(signal), INT64_MAX);
    GOOD(hsa_signal_destroy(signal));
    GOOD(hsa_shut_down());
}

CASE(signal_has_atomic_operations) {
    start();
    hsa_signal_t signal = make_signal(0x0f);
    EQUAL(hsa_signal_exchange_scacq_screl(signal, 0x33), 0x0f);
    EQUAL(hsa_signal_cas_scacq_screl(signal, 0x33, 0x0c), 0x33);
    EQUAL(hsa_signal_cas_scacq_screl(signal, 0x99, 0x01), 0x0c);
    hsa_signal_add_relaxed(signal, 4);
    EQUAL(hsa_signal_load_relaxed(signal), 0x10);
    hsa_signal_subtract_screlease(signal, 1);
    EQUAL(hsa_signal_load_relaxed(signal), 0x0f);
    hsa_signal_and_scacquire(signal, 0x3c);
    EQUAL(hsa_signal_load_relaxed(signal), 0x0c);
    hsa_signal_or_scacq_screl(signal, 0x41);
    EQUAL(hsa_signal_load_relaxed(signal), 0x4d);
    hsa_signal_xor_relaxed(signal, 0xff);
    EQUAL(hsa_signal_load_relaxed(signal), 0xb2);
}

CASE(wait_knows_every_condition) {
    start();
    hsa_signal_t signal = make_signal(5);
    const hsa_wait_state_t states[2] = {HSA_WAIT_STATE_BLOCKED, HSA_WAIT_STATE_ACTIVE};
    const struct {
        hsa_signal_condition_t condition;
        hsa_signal_value_t holds, fails;
    } rows[] = {{HSA_SIGNAL_CONDITION_EQ, 5, 6},
                {HSA_SIGNAL_CONDITION_NE, 6, 5},
                {HSA_SIGNAL_CONDITION_LT, 6, 5},
                {HSA_SIGNAL_CONDITION_GTE, 5, 6}};
    for (unsigned i = 0; i < 8; i++) {
        EQUAL(hsa_signal_wait_scacquire(signal, rows[i / 2].condition, rows[i / 2].holds, UINT64_MAX, states[i % 2]), 5);
        // Ends when the time is over, and tells the value that does not fit.
        EQUAL(hsa_signal_wait_relaxed(signal, rows[i / 2].condition, rows[i / 2].fails, 1000000, states[i % 2]), 5);
    }
}

static void* store_later(void* handle) {
    hsa_signal_t signal = {(uint64_t)(uintptr_t)handle};
    usleep(10000);
    hsa_signal_store_screlease(signal, 3);
    return NULL;
}

CASE(wait_ends_when_another_thread_stores) {
    start();
    pthread_t thread;
    const hsa_wait_state_t states[2] = {HSA_WAIT_STATE_BLOCKED, HSA_WAIT_STATE_ACTIVE};
    for (int round = 0; round < 6; round++) {
        hsa_signal_t signal = make_signal(0);
        pthread_create(&thread, NULL, store_later, (void*)(uintptr_t)signal.handle);
        EQUAL(hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_EQ, 3, UINT64_MAX, states[round % 2]), 3);
        pthread_join(thread, NULL);
        GOOD(hsa_signal_destroy(signal));
    }
}

CASE(wait_for_any_of_several_signals) {
    // ROCr 7.2.4 keeps the values in a vector of one: a wait that times out crashes, and other signals write behind it.
    enum { MANY = ROCM_MAJOR < 7 ? 6 : 1 };
    start();
    hsa_signal_t signals[MANY];
    hsa_signal_condition_t conditions[MANY];
    hsa_signal_value_t values[MANY], seen = 0;
    for (int i = 0; i < MANY; i++) {
        signals[i] = make_signal(0);
        conditions[i] = HSA_SIGNAL_CONDITION_GTE;
        values[i] = i + 1;
    }
    if (ROCM_MAJOR < 7)
        EQUAL(hsa_amd_signal_wait_any(MANY, signals, conditions, values, 1000000, HSA_WAIT_STATE_BLOCKED, &seen), UINT32_MAX);
    for (int i = MANY - 1; i >= 0; i--) {
        hsa_signal_store_screlease(signals[i], i + 10);
        EQUAL(hsa_amd_signal_wait_any(MANY, signals, conditions, values, UINT64_MAX, HSA_WAIT_STATE_BLOCKED, &seen), i);
        EQUAL(seen, i + 10);
        hsa_signal_store_screlease(signals[i], 0);
    }
}

struct handled {
    volatile int calls;
    int keep;
};
static bool handle_signal(hsa_signal_value_t value, void* argument) {
    struct handled* handled = (struct handled*)argument;
    CHECK(value < 1, "value %lld", (long long)value);
    __atomic_fetch_add(&handled->calls, 1, __ATOMIC_RELEASE);
    return handled->keep-- > 0;
}

CASE(handler_is_called_once_or_again) {
    start();
    struct handled once = {0, 0}, thrice = {0, 2};
    hsa_signal_t one = make_signal(1), three = make_signal(1);
    GOOD(hsa_amd_signal_async_handler(one, HSA_SIGNAL_CONDITION_LT, 1, handle_signal, &once));
    GOOD(hsa_amd_signal_async_handler(three, HSA_SIGNAL_CONDITION_LT, 1, handle_signal, &thrice));
    usleep(5000);
    EQUAL(once.calls + thrice.calls, 0);
    hsa_signal_store_screlease(one, 0);
    hsa_signal_store_screlease(three, -1);
    while (__atomic_load_n(&once.calls, __ATOMIC_ACQUIRE) < 1 || __atomic_load_n(&thrice.calls, __ATOMIC_ACQUIRE) < 3)
        usleep(100);
    usleep(5000);
    EQUAL(once.calls, 1);
    EQUAL(thrice.calls, 3);
}

CASE(handlers_of_many_signals) {
    start();
    enum { MANY = 100 };
    static struct handled handled[MANY];
    hsa_signal_t signals[MANY];
    for (int i = 0; i < MANY; i++) {
        signals[i] = make_signal(1);
        GOOD(hsa_amd_signal_async_handler(signals[i], HSA_SIGNAL_CONDITION_EQ, 0, handle_signal, &handled[i]));
    }
    for (int i = 0; i < MANY; i++)
        hsa_signal_subtract_screlease(signals[i * 37 % MANY], 1);
    for (int i = 0; i < MANY; i++)
        while (__atomic_load_n(&handled[i].calls, __ATOMIC_ACQUIRE) < 1)
            usleep(100);
}

static void note_call(void* argument) { __atomic_store_n((int*)argument, 1, __ATOMIC_RELEASE); }

CASE(function_is_called_by_the_runtime) {
    start();
    int called = 0;
    GOOD(hsa_amd_async_function(note_call, &called));
    while (!__atomic_load_n(&called, __ATOMIC_ACQUIRE))
        usleep(100);
}

CASE(kernels_end_handles_a_signal) {
    start();
    hsa_executable_t executable = load();
    hsa_queue_t* queue = make_queue(64);
    uint32_t* counter = (uint32_t*)allocate(fine, PAGE);
    struct handled handled = {0, 0};
    hsa_signal_t signal = make_signal(1);
    GOOD(hsa_amd_signal_async_handler(signal, HSA_SIGNAL_CONDITION_LT, 1, handle_signal, &handled));
    dispatch(queue, find(executable, "count"), arguments_of(&counter, sizeof counter), 64, 64, signal);
    while (!__atomic_load_n(&handled.calls, __ATOMIC_ACQUIRE))
        usleep(100);
    EQUAL(*counter, 64);
}

CASE(signal_of_several_kernels_counts_down) {
    start();
    hsa_executable_t executable = load();
    hsa_queue_t* queue = make_queue(64);
    uint32_t* counter = (uint32_t*)allocate(fine, PAGE);
    hsa_signal_t signal = make_signal(40);
    void* arguments = arguments_of(&counter, sizeof counter);
    struct kernel kernel = find(executable, "count");
    for (int i = 0; i < 40; i++)
        dispatch(queue, kernel, arguments, 64, 64, signal);
    wait_for(signal, 0);
    EQUAL(*counter, 40 * 64);
}

CASE(signal_for_the_gpu_alone) {
    start();
    hsa_signal_t signal;
    GOOD(hsa_amd_signal_create(1, 0, NULL, HSA_AMD_SIGNAL_AMD_GPU_ONLY, &signal));
    hsa_executable_t executable = load();
    hsa_queue_t* queue = make_queue(64);
    uint32_t* counter = (uint32_t*)allocate(fine, PAGE);
    dispatch(queue, find(executable, "count"), arguments_of(&counter, sizeof counter), 64, 64, signal);
    while (hsa_signal_load_scacquire(signal) != 0)
        usleep(100);
    EQUAL(*counter, 64);
}

CASE(signal_of_another_process) {
    int ends[2], back[2];
    CHECK(pipe(ends) == 0 && pipe(back) == 0, "pipe");
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    hsa_amd_ipc_signal_t handle;
    hsa_signal_t signal;
    if (child == 0) {
        close(ends[1]);
        CHECK(read(ends[0], &handle, sizeof handle) == sizeof handle, "no handle");
        start();
        GOOD(hsa_amd_ipc_signal_attach(&handle, &signal));
        EQUAL(hsa_signal_load_scacquire(signal), 12);
        hsa_signal_store_screlease(signal, 34);
        while (hsa_signal_load_scacquire(signal) != 56)
            usleep(100);
        GOOD(hsa_signal_destroy(signal));
        _exit(0);
    }
    start();
    int status = 0;
    GOOD(hsa_amd_signal_create(12, 0, NULL, HSA_AMD_SIGNAL_IPC, &signal));
    GOOD(hsa_amd_ipc_signal_create(signal, &handle));
    CHECK(write(ends[1], &handle, sizeof handle) == sizeof handle, "write");
    while (hsa_signal_load_scacquire(signal) != 34 && waitpid(child, &status, WNOHANG) == 0)
        usleep(100);
    EQUAL(hsa_signal_load_scacquire(signal), 34);
    hsa_signal_store_screlease(signal, 56);
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the other process ended with %#x", status);
}

CASE(signals_are_many) {
    start();
    enum { MANY = 10000 };
    hsa_signal_t* signals = (hsa_signal_t*)calloc(MANY, sizeof *signals);
    for (int i = 0; i < MANY; i++)
        signals[i] = make_signal(i);
    for (int i = 0; i < MANY; i++) {
        EQUAL(hsa_signal_load_relaxed(signals[i]), i);
        GOOD(hsa_signal_destroy(signals[i]));
    }
}

CASE(refused_signals) {
    start();
    hsa_signal_t signal, none = {0};
    GIVES(hsa_signal_create(1, 0, NULL, NULL), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    GIVES(hsa_signal_create(1, 2, NULL, &signal), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    GIVES(hsa_signal_destroy(none), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    GIVES(hsa_amd_signal_async_handler(make_signal(1), HSA_SIGNAL_CONDITION_EQ, 0, NULL, NULL),
          HSA_STATUS_ERROR_INVALID_ARGUMENT);
    hsa_amd_ipc_signal_t handle;
    GIVES(hsa_amd_ipc_signal_create(make_signal(1), &handle), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    GIVES(hsa_amd_ipc_signal_create(make_signal(1), NULL), HSA_STATUS_ERROR_INVALID_ARGUMENT);
}
