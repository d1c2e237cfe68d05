// Limits of the process, and programs that close what they did not open.
#include "../hip/hip_cases.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static const uint32_t COUNT = 20000;

__global__ void add_index(uint32_t* words, uint32_t count) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) words[i] += i;
}

static void compute(uint32_t rounds = 5) {
    std::vector<uint32_t> want = noise(COUNT, 3);
    Buffer<uint32_t> words(want);
    for (uint32_t round = 0; round < rounds; round++) {
        add_index<<<(COUNT + 255) / 256, 256>>>(words.data, COUNT);
        LAUNCHED();
        usleep(3000);
        for (uint32_t i = 0; i < COUNT; i++) want[i] += i;
    }
    SAME_AS(words.read(), want);
}

static void set_limit(int which, rlim_t value) {
    struct rlimit limit;
    EQUAL(getrlimit((__rlimit_resource)which, &limit), 0);
    limit.rlim_cur = value;
    EQUAL(setrlimit((__rlimit_resource)which, &limit), 0);
}

// Closes everything but the standard streams, in one of the ways programs do it.
static void close_all(int way, int first) {
    switch (way) {
    case 0: closefrom(first); break;
    case 1:
        for (int fd = first; fd < 1024; fd++) close(fd);
        break;
    case 2: EQUAL(close_range(unsigned(first), ~0u, 0), 0); break;
    case 3:
        for (int fd = first; fd < 1024; fd++) syscall(SYS_close, fd);
        break;
    case 4: EQUAL(syscall(SYS_close_range, unsigned(first), ~0u, 0), 0); break;
    }
}

// System calls that no library sees.
static void close_by_system_call(int fd) {
    long result;
    asm volatile("syscall" : "=a"(result) : "a"(SYS_close), "D"(fd) : "rcx", "r11", "memory");
}

static void in_its_own_process(const char* what, int way, void (*body)(int)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        body(way);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "%s %d: status %#x", what, way, status);
}

CASE(limit_of_descriptors) {
    set_limit(RLIMIT_NOFILE, 64);
    compute();
}

// The runtime itself reserves 4 GiB and more.
CASE(limit_of_address_space) {
    set_limit(RLIMIT_AS, rlim_t(16) << 30);
    compute();
}

CASE(limit_of_address_space_for_the_driver_alone) {
    set_limit(RLIMIT_AS, rlim_t(4) << 30);
    int fd = open("/dev/kfd", O_RDWR);
    CHECK(fd >= 0, "%s", strerror(errno));
}

CASE(limit_of_address_space_that_is_too_low_is_named) {
    static char said[1 << 14];
    int status = in_child(
        [] {
            set_limit(RLIMIT_AS, rlim_t(512) << 20);
            int fd = open("/dev/kfd", O_RDWR);
            CHECK(fd == -1 && errno == ENOMEM, "%d: %s", fd, strerror(errno));
        },
        said, sizeof said);
    CHECK(status == 0, "status %#x: %s", status, said);
    CHECK(strstr(said, "the GPU cannot be started"), "%s", said);
}

CASE(descriptors_closed_before_use) {
    for (int way = 0; way < 5; way++)
        in_its_own_process("way", way, [](int way) {
            close_all(way, 3);
            compute();
        });
}

// The runtime has lost its own descriptors then, and is not asked for more; what is there goes on.
CASE(descriptors_closed_after_use) {
    for (int way = 0; way < 5; way++)
        in_its_own_process("way", way, [](int way) {
            hipStream_t stream;
            HIP(hipStreamCreate(&stream));
            std::vector<uint32_t> want(COUNT, 0);
            uint32_t* words = nullptr;
            HIP(hipHostMalloc((void**)&words, COUNT * 4, hipHostMallocCoherent));
            memset(words, 0, COUNT * 4);
            int kfd = -1, render = -1;
            char path[64], link[256];
            for (int fd = 3; fd < 1024; fd++) {
                snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
                ssize_t count = readlink(path, link, sizeof link - 1);
                link[count > 0 ? count : 0] = 0;
                if (strcmp(link, "/dev/kfd") == 0) kfd = fd;
                if (strcmp(link, "/dev/dri/renderD128") == 0) render = fd;
            }
            CHECK(kfd > 2 && render > 2, "%d %d", kfd, render);
            // Programs that close all descriptors keep those they know of; the driver's are not among them here.
            int high = kfd > render ? kfd : render;
            for (uint32_t round = 0; round < 6; round++) {
                if (round == 2) close_all(way, high + 1);
                add_index<<<(COUNT + 255) / 256, 256, 0, stream>>>(words, COUNT);
                LAUNCHED();
                HIP(hipStreamSynchronize(stream));
                usleep(5000);
                for (uint32_t i = 0; i < COUNT; i++) want[i] += i;
            }
            SAME(words, want.data(), COUNT);
        });
}

// Even where no library sees it, and the numbers are the program's next.
CASE(descriptors_closed_by_system_call) {
    compute();
    std::vector<int> closed;
    char path[64], link[256];
    for (int fd = 3; fd < 1024; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t count = readlink(path, link, sizeof link - 1);
        link[count > 0 ? count : 0] = 0;
        if (strstr(link, "userfaultfd")) {
            close_by_system_call(fd);
            closed.push_back(fd);
        }
    }
    // A pipe that is full of the program's data, at each of these numbers: all of it stays there.
    for (int fd : closed) {
        int ends[2];
        CHECK(pipe(ends) == 0, "pipe");
        char data[64] = "data of the program";
        EQUAL(write(ends[1], data, sizeof data), 64);
        if (ends[0] != fd) EQUAL(dup2(ends[0], fd), fd);
        compute();
        usleep(20000);
        char back[64] = "";
        EQUAL(read(fd, back, sizeof back), 64);
        CHECK(memcmp(data, back, 64) == 0, "%.64s", back);
    }
}

// Numbers that the program wants for its own are its own.
CASE(descriptors_replaced) {
    compute();
    FILE* log = tmpfile();
    char path[64], link[256];
    int replaced = 0;
    for (int round = 0; round < 3; round++)
        for (int fd = 3; fd < 1024; fd++) {
            snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
            ssize_t count = readlink(path, link, sizeof link - 1);
            link[count > 0 ? count : 0] = 0;
            if (!strstr(link, "userfaultfd")) continue;
            EQUAL(round == 1 ? dup3(fileno(log), fd, O_CLOEXEC) : dup2(fileno(log), fd), fd);
            EQUAL(write(fd, "x", 1), 1);
            replaced++;
            compute(2);
            if (replaced > 8) return;
        }
}
