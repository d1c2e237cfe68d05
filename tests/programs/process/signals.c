// Signals: the program's own actions work as if nobody else had any, before and after the GPU starts.
#include "process.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>

static sigjmp_buf back;
static volatile sig_atomic_t faults;
static volatile uintptr_t fault_address, handler_stack;

static void one_argument(int signal) {
    (void)signal;
    int here;
    handler_stack = (uintptr_t)&here;
    faults++;
    siglongjmp(back, 1);
}

static void three_arguments(int signal, siginfo_t* info, void* context) {
    (void)signal;
    fault_address = context ? (uintptr_t)info->si_addr : 0;
    faults++;
    siglongjmp(back, 1);
}

__attribute__((noinline)) static void touch(uintptr_t address) {
    *(volatile int*)address = 1;
}

// A fault that the program's handler gets out of.
static void fault_and_return(uintptr_t address) {
    int before = faults;
    if (sigsetjmp(back, 1) == 0) {
        touch(address);
        FAIL("no fault at %#lx", address);
    }
    EQUAL(faults, before + 1);
}

static char other_stack[1 << 16];

static void all_kinds(void) {
    struct sigaction action = {0}, old;
    action.sa_handler = one_argument;
    EQUAL(sigaction(SIGSEGV, &action, NULL), 0);
    fault_and_return(16);
    action.sa_sigaction = three_arguments;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaddset(&action.sa_mask, SIGUSR1);
    EQUAL(sigaction(SIGSEGV, &action, &old), 0);
    CHECK(old.sa_handler == one_argument && !(old.sa_flags & SA_SIGINFO), "flags %#x", old.sa_flags);
    fault_and_return(0x123450);
    EQUAL(fault_address, 0x123450);
    EQUAL(sigaction(SIGSEGV, NULL, &old), 0);
    CHECK(old.sa_sigaction == three_arguments, "another handler");
    EQUAL(old.sa_flags & (SA_SIGINFO | SA_NODEFER | SA_ONSTACK | SA_RESETHAND), SA_SIGINFO | SA_NODEFER);
    EQUAL(sigismember(&old.sa_mask, SIGUSR1), 1);
    // A page that is there, but not for writing.
    void* page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fault_and_return((uintptr_t)page);
    EQUAL(fault_address, (uintptr_t)page);
    // An address that no memory can have.
    fault_and_return(UINT64_C(0x8000000000000000));
    EQUAL(fault_address, 0);
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    EQUAL(sigaltstack(&stack, NULL), 0);
    action.sa_handler = one_argument;
    action.sa_flags = SA_ONSTACK | SA_RESETHAND;
    EQUAL(sigaction(SIGSEGV, &action, NULL), 0);
    fault_and_return(16);
    CHECK(handler_stack - (uintptr_t)other_stack < sizeof other_stack, "on the wrong stack");
    EQUAL(sigaction(SIGSEGV, NULL, &old), 0);
    CHECK(old.sa_handler == SIG_DFL, "SA_RESETHAND");
    CHECK(signal(SIGSEGV, one_argument) == SIG_DFL, "signal");
    for (int i = 0; i < 100; i++) fault_and_return(16);
    CHECK(signal(SIGSEGV, SIG_DFL) == one_argument, "signal");
    CHECK(signal(SIGBUS, SIG_IGN) == SIG_DFL && signal(SIGBUS, SIG_DFL) == SIG_IGN, "signal");
    EQUAL(signal(65, SIG_DFL) == SIG_ERR, 1);
}

CASE(signal_handlers_of_faults) {
    all_kinds();
    int fd = open_driver();
    all_kinds();
    EQUAL(driver_answers(fd), 0);
}

// A handler that was there first is in force afterwards.
CASE(signal_handler_from_before_the_start) {
    struct sigaction action = {0}, old;
    action.sa_sigaction = three_arguments;
    action.sa_flags = SA_SIGINFO;
    EQUAL(sigaction(SIGSEGV, &action, NULL), 0);
    open_driver();
    fault_and_return(0x12340);
    EQUAL(fault_address, 0x12340);
    EQUAL(sigaction(SIGSEGV, NULL, &old), 0);
    CHECK(old.sa_sigaction == three_arguments, "another handler");
}

static void null_dereference(void) {
    touch(8);
}
static void null_dereference_after_start(void) {
    open_driver();
    touch(8);
}
static void null_dereference_with_ignored_signal(void) {
    open_driver();
    signal(SIGSEGV, SIG_IGN);
    touch(8);
}
static void* on_a_thread(void* nothing) {
    touch(8);
    return nothing;
}
static void null_dereference_on_a_thread(void) {
    open_driver();
    pthread_t thread;
    pthread_create(&thread, NULL, on_a_thread, NULL);
    pthread_join(thread, NULL);
}
static void sent_to_itself(void) {
    open_driver();
    raise(SIGSEGV);
}
static int deeper(volatile char* from) {
    volatile char room[4096];
    room[0] = *from;
    return deeper(room) + room[1];
}
static void endless_recursion(void) {
    open_driver();
    char first = 0;
    deeper(&first);
}
static void second_fault_after_reset(void) {
    open_driver();
    struct sigaction action = {0};
    action.sa_handler = one_argument;
    action.sa_flags = SA_RESETHAND;
    sigaction(SIGSEGV, &action, NULL);
    fault_and_return(16);
    touch(16);
}

CASE(signal_fault_without_handler_ends_the_program) {
    void (*bodies[])(void) = {null_dereference, null_dereference_after_start, null_dereference_with_ignored_signal,
                              null_dereference_on_a_thread, sent_to_itself, endless_recursion, second_fault_after_reset};
    struct rlimit limit = {0, 0};
    setrlimit(RLIMIT_CORE, &limit);
    for (unsigned i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char said[4096];
        int status = in_child(bodies[i], said, sizeof said);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "body %u: status %#x: %s", i, status, said);
    }
}

static volatile sig_atomic_t ticks;
static void tick(int signal) {
    (void)signal;
    ticks++;
}

// Calls of the driver are not disturbed by signals, and are no longer than they are.
CASE(signal_storm_during_calls) {
    int fd = open_driver();
    struct sigaction action = {0};
    action.sa_handler = tick;
    EQUAL(sigaction(SIGALRM, &action, NULL), 0);
    EQUAL(sigaction(SIGPROF, &action, NULL), 0);
    struct itimerval often = {{0, 500}, {0, 500}};
    EQUAL(setitimer(ITIMER_REAL, &often, NULL), 0);
    EQUAL(setitimer(ITIMER_PROF, &often, NULL), 0);
    while (ticks < 400) {
        EQUAL(driver_answers(fd), 0);
        char name[64];
        int ends = open(GPU_ID, O_RDONLY);
        CHECK(ends >= 0 && read(ends, name, sizeof name) > 0, "%s", strerror(errno));
        close(ends);
    }
}

static void leave(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

// A handler that never returns to the call it has interrupted: the calls after it are the program's as before.
CASE(signal_handler_that_jumps_out_of_a_call) {
    int fd = open_driver();
    signal(SIGALRM, leave);
    for (int i = 0; i < 200; i++) {
        struct itimerval soon = {{0, 0}, {0, 300 + i}};
        if (sigsetjmp(back, 1) == 0) {
            setitimer(ITIMER_REAL, &soon, NULL);
            for (;;) {
                EQUAL(driver_answers(fd), 0);
                munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
            }
        }
        EQUAL(driver_answers(fd), 0);
        int again = open(KFD, O_RDWR);
        EQUAL(driver_answers(again), 0);
        close(again);
    }
}

// No signal of the program is taken by a thread it has not made.
CASE(signal_goes_to_threads_of_the_program) {
    open_driver();
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    EQUAL(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    EQUAL(kill(getpid(), SIGUSR1), 0);
    struct timespec patience = {20, 0};
    EQUAL(sigtimedwait(&set, NULL, &patience), SIGUSR1);
}
