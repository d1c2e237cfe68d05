// Memory that changes while the GPU uses it: the program's own, in every way the C library and the kernel offer.
#include "../hip/hip_cases.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static const size_t SIZE = 4 << 20;

// Writes a range over and over until it is told to stop.
__global__ void writes(uint32_t* words, size_t count, uint32_t value, uint32_t* stop, uint32_t* rounds) {
    size_t first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    while (__hip_atomic_load(stop, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM) == 0) {
        for (size_t i = first; i < count; i += step) __hip_atomic_store(words + i, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
        if (first == 0) __hip_atomic_fetch_add(rounds, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    }
}

// A kernel that writes `memory` for as long as `stop` is 0.
struct Writer {
    uint32_t *stop, *rounds;
    explicit Writer(uint32_t* memory, size_t bytes, uint32_t value = 0xdeadbeef) {
        HIP(hipHostMalloc((void**)&stop, 4, hipHostMallocCoherent));
        HIP(hipHostMalloc((void**)&rounds, 4, hipHostMallocCoherent));
        *stop = *rounds = 0;
        HIP(hipHostRegister(memory, bytes, hipHostRegisterDefault));
        uint32_t* device = nullptr;
        HIP(hipHostGetDevicePointer((void**)&device, memory, 0));
        writes<<<2, 64>>>(device, bytes / 4, value, stop, rounds);
        LAUNCHED();
        (void)hipStreamQuery(nullptr);
        more(2);
    }
    // Waits until it has gone over the memory a few times more.
    void more(uint32_t times) const {
        uint32_t before = __atomic_load_n(rounds, __ATOMIC_RELAXED);
        time_t until = time(nullptr) + 8;
        while (time(nullptr) < until && __atomic_load_n(rounds, __ATOMIC_RELAXED) - before < times) usleep(500);
    }
    void end() const {
        __atomic_store_n(stop, 1u, __ATOMIC_RELAXED);
        HIP(hipDeviceSynchronize());
    }
};

static uint32_t* map(size_t size, int flags = MAP_PRIVATE) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED, "mmap");
    memset(memory, 0, size);
    return (uint32_t*)memory;
}

// System calls that no library sees.
static long raw(long number, long a, long b, long c, long d = 0, long e = 0, long f = 0) {
    long result;
    register long r10 asm("r10") = d;
    register long r8 asm("r8") = e;
    register long r9 asm("r9") = f;
    asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return result;
}

// What may become of a program whose GPU loses its memory: ROCr reports the fault and aborts, as on hardware, or the
// kernel ends. Neither is it a fault of a thread of the program's, nor does it hang.
//
// Where a system call of the program's own has unmapped it, another thread's mapping may take its place before the driver
// knows, and a store of the GPU meets memory it must not write: the process ends with a message (docs/exec.md, "Limits").
static bool faulted_or_ended(int status, const char* said, bool by_system_call) {
    bool reported = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(said, "Memory access fault by GPU");
    bool taken = by_system_call && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV && strstr(said, "it cannot go on");
    return status == 0 || reported || taken;
}

static void gpu_faults_or_ends(void (*body)(), bool by_system_call = false) {
    struct rlimit limit = {0, 0};
    setrlimit(RLIMIT_CORE, &limit);
    static char said[1 << 16];
    int status = in_child(body, said, sizeof said);
    CHECK(faulted_or_ended(status, said, by_system_call), "status %#x: %s", status, said);
    CHECK(!strstr(said, "panicked"), "%s", said);
}

static void free_by_malloc() {
    uint32_t* memory = (uint32_t*)aligned_alloc(4096, SIZE);
    memset(memory, 0, SIZE);
    Writer writer(memory, SIZE);
    free(memory);
    writer.more(1000);
}
static void unmap() {
    uint32_t* memory = map(SIZE);
    Writer writer(memory, SIZE);
    EQUAL(munmap(memory, SIZE), 0);
    writer.more(1000);
}
static void unmap_by_system_call() {
    uint32_t* memory = map(SIZE);
    Writer writer(memory, SIZE);
    EQUAL(raw(SYS_munmap, (long)memory, SIZE, 0), 0);
    writer.more(1000);
}
static void unmap_a_part_by_system_call() {
    uint32_t* memory = map(SIZE);
    Writer writer(memory, SIZE);
    EQUAL(raw(SYS_munmap, (long)memory + SIZE / 2, 4096, 0), 0);
    writer.more(1000);
}
static void move() {
    uint32_t* memory = map(SIZE);
    Writer writer(memory, SIZE);
    CHECK(mremap(memory, SIZE, 2 * SIZE, MREMAP_MAYMOVE) != MAP_FAILED, "mremap");
    writer.more(1000);
}
static void move_by_system_call() {
    uint32_t *memory = map(SIZE), *place = map(SIZE);
    Writer writer(memory, SIZE);
    EQUAL(raw(SYS_mremap, (long)memory, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, (long)place), (long)place);
    writer.more(1000);
}
static void protect() {
    uint32_t* memory = map(SIZE);
    Writer writer(memory, SIZE);
    EQUAL(mprotect(memory, SIZE, PROT_READ), 0);
    writer.more(1000);
}
static void replace() {
    uint32_t* memory = map(SIZE);
    Writer writer(memory, SIZE);
    CHECK(mmap(memory, SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory, "mmap");
    writer.more(1000);
}

CASE(memory_freed_while_written) { gpu_faults_or_ends(free_by_malloc); }
CASE(memory_unmapped_while_written) { gpu_faults_or_ends(unmap); }
CASE(memory_unmapped_by_system_call_while_written) { gpu_faults_or_ends(unmap_by_system_call, true); }
CASE(memory_partly_unmapped_while_written) { gpu_faults_or_ends(unmap_a_part_by_system_call, true); }
CASE(memory_moved_while_written) { gpu_faults_or_ends(move); }
CASE(memory_moved_by_system_call_while_written) { gpu_faults_or_ends(move_by_system_call, true); }
CASE(memory_made_read_only_while_written) { gpu_faults_or_ends(protect); }
CASE(memory_replaced_while_written) { gpu_faults_or_ends(replace); }

// Nobody can take a page from under a device that holds it: the program ends with a line that says why.
static void protect_by_system_call() {
    signal(SIGSEGV, [](int) { _exit(77); });
    uint32_t* memory = map(SIZE);
    Writer writer(memory, SIZE);
    EQUAL(raw(SYS_mprotect, (long)memory, SIZE, PROT_READ), 0);
    writer.more(1000);
}

CASE(memory_made_read_only_by_system_call_while_written) {
    struct rlimit limit = {0, 0};
    setrlimit(RLIMIT_CORE, &limit);
    static char said[1 << 16];
    int status = in_child(protect_by_system_call, said, sizeof said);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "status %#x: %s", status, said);
    CHECK(strstr(said, "has made read-only"), "%s", said);
}

// What comes to lie where memory of the GPU was is never written by it.
static void reuse(bool by_system_call) {
    uint32_t* memory = map(SIZE);
    Writer writer(memory, SIZE);
    if (by_system_call)
        EQUAL(raw(SYS_munmap, (long)memory, SIZE, 0), 0);
    else
        EQUAL(munmap(memory, SIZE), 0);
    uint32_t* again = (uint32_t*)mmap(memory, SIZE, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    // A page that was put there for the device is in the way, which is as good.
    if (again == MAP_FAILED) _exit(errno == EEXIST ? 0 : 3);
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < SIZE / 4; i++)
            if (again[i] != 0) {
                fprintf(stderr, "round %d: word %zu was written: %#x\n", round, i, again[i]);
                _exit(2);
            }
        usleep(5000);
    }
    _exit(0);
}

static void reused_is_not_written(void (*body)(), bool by_system_call) {
    for (int i = 0; i < 6; i++) {
        static char said[1 << 16];
        struct rlimit limit = {0, 0};
        setrlimit(RLIMIT_CORE, &limit);
        int status = in_child(body, said, sizeof said);
        CHECK(faulted_or_ended(status, said, by_system_call), "status %#x: %s", status, said);
    }
}

CASE(memory_reused_after_unmapping) {
    reused_is_not_written([] { reuse(false); }, false);
}
CASE(memory_reused_after_unmapping_by_system_call) {
    reused_is_not_written([] { reuse(true); }, true);
}

__global__ void count_up(uint32_t* words, size_t count) {
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) words[i] += uint32_t(i);
}

// Maps of the driver's buffers may be cut: the device has its memory, and the rest of the map goes on.
CASE(memory_map_of_a_buffer_cut) {
    const size_t count = 1 << 20;
    uint32_t* words = nullptr;
    HIP(hipMalloc((void**)&words, count * 4));
    HIP(hipMemset(words, 0, count * 4));
    HIP(hipDeviceSynchronize());
    // The runtime maps device memory for the processor as well, at the same place.
    words[7] = 0;
    EQUAL(munmap((char*)words + count, 4096), 0);
    uint32_t* own = (uint32_t*)mmap((char*)words + count, 4096, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(own != MAP_FAILED, "%s", strerror(errno));
    own[0] = 1234;
    count_up<<<count / 256, 256>>>(words, count);
    FINISHED();
    for (size_t i = 0; i < count; i++)
        if (i < count / 4 || i >= count / 4 + 1024) EQUAL(words[i], i);
    EQUAL(own[0], 1234);
    EQUAL(own[1], 0);
}

// Where registered memory was, something else comes to lie that nobody may touch, as the guard page of a thread's stack does. It is not
// what was registered, and nobody waits for it.
CASE(memory_replaced_by_system_call_stops_no_queue) {
    const size_t count = 1 << 16;
    uint32_t *memory = map(SIZE), *words = nullptr;
    HIP(hipMalloc((void**)&words, count * 4));
    for (int round = 0; round < 3; round++) {
        HIP(hipHostRegister(memory, SIZE, hipHostRegisterDefault));
        HIP(hipMemset(words, 0, count * 4));
        long again = raw(SYS_mmap, (long)memory, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
        EQUAL(again, (long)memory);
        count_up<<<count / 256, 256>>>(words, count);
        FINISHED();
        uint32_t last = 0;
        HIP(hipMemcpy(&last, words + count - 1, 4, hipMemcpyDeviceToHost));
        EQUAL(last, count - 1);
        (void)hipHostUnregister(memory);
        // Memory of its own once more.
        EQUAL(mmap(memory, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), memory);
    }
}

// The whole life of registered memory, again and again: nothing is left over, and nothing slows down for good.
CASE(memory_registered_again_and_again) {
    for (int i = 0; i < 200; i++) {
        size_t size = 4096 * (1 + i % 37);
        uint32_t* memory = i % 2 ? map(size) : (uint32_t*)aligned_alloc(4096, size);
        memset(memory, 0, size);
        HIP(hipHostRegister(memory, size, hipHostRegisterDefault));
        uint32_t* device = nullptr;
        HIP(hipHostGetDevicePointer((void**)&device, memory, 0));
        count_up<<<(size / 4 + 255) / 256, 256>>>(device, size / 4);
        FINISHED();
        for (size_t at = 0; at < size / 4; at += 511) EQUAL(memory[at], at);
        HIP(hipHostUnregister(memory));
        if (i % 2)
            EQUAL(i % 4 == 1 ? munmap(memory, size) : raw(SYS_munmap, (long)memory, size, 0), 0);
        else
            free(memory);
    }
}

// A child made while memory is registered has its own.
CASE(memory_registered_across_fork) {
    uint32_t* memory = map(SIZE);
    Writer writer(memory, SIZE, 7);
    pid_t child = fork();
    if (child == 0) {
        // Whatever the parent's device has written by now, here it stays.
        uint32_t* copy = (uint32_t*)malloc(SIZE);
        memcpy(copy, memory, SIZE);
        usleep(50000);
        int differs = memcmp(copy, memory, SIZE) != 0;
        munmap(memory, SIZE);
        _exit(differs);
    }
    memory[5] = 1;
    writer.more(3);
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "status %#x", status);
    writer.more(3);
    EQUAL(__atomic_load_n(memory + 5, __ATOMIC_RELAXED), 7);
    writer.end();
}
