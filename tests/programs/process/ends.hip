// Ends: whatever the GPU is doing, a process ends at once, in the way it wants to.
#include "../hip/hip_cases.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <thread>

__global__ void endless(uint32_t* flag) {
    while (__hip_atomic_load(flag, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM) == 0) {}
}

static void keep_busy() {
    uint32_t* flag = nullptr;
    HIP(hipHostMalloc((void**)&flag, 4, hipHostMallocCoherent));
    *flag = 0;
    for (int i = 0; i < 3; i++) endless<<<8, 64>>>(flag);
    LAUNCHED();
    HIP_FAILS(hipStreamQuery(nullptr), hipErrorNotReady);
}

static void ends(const char* what, void (*body)(), int want) {
    struct rlimit limit = {0, 0};
    setrlimit(RLIMIT_CORE, &limit);
    static char said[1 << 14];
    int status = in_child(body, said, sizeof said);
    CHECK(status == want, "%s: status %#x, not %#x: %s", what, status, want, said);
    CHECK(!strstr(said, "panicked"), "%s: %s", what, said);
}

CASE(end_by_exit) {
    // What HIP does at exit may wait for its kernels, as on hardware; the process ends by itself without it.
    ends("_exit", [] { keep_busy(); _exit(41); }, 41 << 8);
    ends("_Exit", [] { keep_busy(); _Exit(42); }, 42 << 8);
    ends("quick_exit", [] { keep_busy(); quick_exit(43); }, 43 << 8);
    ends("exit on another thread", [] { keep_busy(); std::thread([] { _exit(44); }).join(); }, 44 << 8);
}

CASE(end_by_exit_of_an_idle_process) {
    ends("exit", [] {
        Buffer<uint32_t> words(100);
        words.clear();
        exit(45);
    }, 45 << 8);
}

CASE(end_by_signal) {
    ends("abort", [] { keep_busy(); abort(); }, SIGABRT);
    ends("SIGKILL", [] { keep_busy(); raise(SIGKILL); }, SIGKILL);
    ends("SIGTERM", [] { keep_busy(); kill(getpid(), SIGTERM); pause(); }, SIGTERM);
    ends("SIGSEGV", [] { keep_busy(); *(volatile int*)8 = 1; }, SIGSEGV);
    ends("a handler", [] {
        signal(SIGALRM, [](int) { _exit(46); });
        keep_busy();
        alarm(1);
        (void)hipDeviceSynchronize();
    }, 46 << 8);
    ends("SIGALRM while it waits", [] {
        keep_busy();
        alarm(1);
        (void)hipDeviceSynchronize();
    }, SIGALRM);
}

CASE(end_by_becoming_another_program) {
    ends("exec", [] { keep_busy(); execl("/bin/sh", "sh", "-c", "exit 47", nullptr); }, 47 << 8);
    ends("exec of a program that opens the GPU", [] {
        keep_busy();
        execlp("rocminfo", "rocminfo", nullptr);
    }, 0);
}

static volatile sig_atomic_t ticks;

// Timers of the program do not disturb the runtime, nor what the driver and the device do.
CASE(signals_during_hip_calls) {
    struct sigaction action = {};
    action.sa_handler = [](int) { ticks = ticks + 1; };
    EQUAL(sigaction(SIGALRM, &action, nullptr), 0);
    EQUAL(sigaction(SIGPROF, &action, nullptr), 0);
    struct itimerval often = {{0, 700}, {0, 700}};
    EQUAL(setitimer(ITIMER_REAL, &often, nullptr), 0);
    EQUAL(setitimer(ITIMER_PROF, &often, nullptr), 0);
    int before = ticks;
    for (uint32_t round = 0; round < 30 || ticks - before < 300; round++) {
        std::vector<uint32_t> want = noise(1000 + round * 100, round);
        Buffer<uint32_t> words(want);
        SAME_AS(words.read(), want);
        hipStream_t stream;
        HIP(hipStreamCreate(&stream));
        HIP(hipMemsetAsync(words.data, 0, 4000, stream));
        HIP(hipStreamSynchronize(stream));
        HIP(hipStreamDestroy(stream));
    }
}

// A handler of faults that the program had before, used beside the GPU's own.
static __thread sigjmp_buf* back;
CASE(signal_handler_of_faults_beside_hip) {
    struct sigaction action = {};
    action.sa_handler = [](int) { siglongjmp(*back, 1); };
    EQUAL(sigaction(SIGSEGV, &action, nullptr), 0);
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < 4; i++)
        threads.emplace_back([i] {
            sigjmp_buf here;
            back = &here;
            for (uint32_t round = 0; round < 20; round++) {
                std::vector<uint32_t> want = noise(3000, i * 100 + round);
                Buffer<uint32_t> words(want);
                if (sigsetjmp(here, 1) == 0) {
                    *(volatile int*)(uintptr_t)(4096 * (round % 3)) = 1;
                    FAIL("no fault");
                }
                SAME_AS(words.read(), want);
            }
        });
    for (auto& thread : threads) thread.join();
}
