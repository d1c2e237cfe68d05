// Programs whose clocks are not the kernel's, as under libfaketime: functions of the program's own, which every library finds
// before the C library's. The driver's waits go by the kernel's clock all the same.
#include "process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

// Seconds between the program's clocks and the kernel's.
static _Atomic long ahead;

int clock_gettime(clockid_t clock, struct timespec* time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0) time->tv_sec += ahead;
    return result;
}

// Sleeps that a program cuts short.
int clock_nanosleep(clockid_t clock, int flags, const struct timespec* time, struct timespec* left) {
    (void)clock, (void)flags, (void)time, (void)left;
    return 0;
}

// linux/kfd_ioctl.h: AMDKFD_IOC_CREATE_EVENT, WAIT_EVENTS and ACQUIRE_VM.
struct create_event {
    uint64_t page_offset;
    uint32_t trigger_data, type, auto_reset, node_id, event_id, slot_index;
};
struct event_data {
    uint64_t data[4], ext;
    uint32_t event_id, pad;
};
struct wait_events {
    uint64_t events;
    uint32_t count, wait_for_all, timeout_ms, result;
};
struct acquire_vm {
    uint32_t drm_fd, gpu_id;
};
#define CREATE_EVENT _IOWR('K', 0x08, struct create_event)
#define WAIT_EVENTS _IOWR('K', 0x0c, struct wait_events)
#define ACQUIRE_VM _IOW('K', 0x15, struct acquire_vm)
#define TIMED_OUT 1

static uint32_t new_event(int fd) {
    char text[64] = "";
    int file = open(GPU_ID, O_RDONLY);
    CHECK(read(file, text, sizeof text - 1) > 0, "%s", strerror(errno));
    close(file);
    struct acquire_vm vm = {(uint32_t)open(RENDER, O_RDWR), (uint32_t)strtoul(text, NULL, 10)};
    EQUAL(ioctl(fd, ACQUIRE_VM, &vm), 0);
    struct create_event event = {.auto_reset = 1};
    EQUAL(ioctl(fd, CREATE_EVENT, &event), 0);
    return event.event_id;
}

// Waits for an event that is never signalled.
static void wait_in_vain(int fd, uint32_t event, uint32_t timeout_ms) {
    struct timespec before, after;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &before);
    struct event_data data = {.event_id = event};
    struct wait_events wait = {(uintptr_t)&data, 1, 1, timeout_ms, 0};
    EQUAL(ioctl(fd, WAIT_EVENTS, &wait), 0);
    EQUAL(wait.result, TIMED_OUT);
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &after);
    long passed = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
    CHECK(passed + 1 >= timeout_ms, "%ld ms of %u", passed, timeout_ms);
}

// A wait that does not end is ended by the alarm, which no clock of the program's moves.
CASE(clocks_that_are_ahead_or_behind) {
    alarm(60);
    ahead = 3600;
    int fd = open_driver();
    uint32_t event = new_event(fd);
    long jumps[] = {3600, -3600, 100000000, 0, 1};
    for (unsigned i = 0; i < sizeof jumps / sizeof *jumps; i++) {
        ahead = jumps[i];
        wait_in_vain(fd, event, 40);
    }
}

static void* jump(void* unused) {
    (void)unused;
    long jumps[] = {3600, -3600, 0};
    for (unsigned i = 0;; i++) {
        ahead = jumps[i % 3];
        syscall(SYS_nanosleep, &(struct timespec){0, 700000}, NULL);
    }
    return NULL;
}

CASE(clocks_that_jump_during_waits) {
    alarm(60);
    pthread_t thread;
    EQUAL(pthread_create(&thread, NULL, jump, NULL), 0);
    int fd = open_driver();
    uint32_t event = new_event(fd);
    for (int i = 0; i < 40; i++) wait_in_vain(fd, event, 10);
}
