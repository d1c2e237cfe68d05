// Memory of the GPU by a descriptor: its size, its pages in processes that have no GPU, and what is refused.
#include "process.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// linux/kfd_ioctl.h
struct acquire_vm {
    uint32_t drm_fd, gpu_id;
};
struct alloc_memory {
    uint64_t va_addr, size, handle, mmap_offset;
    uint32_t gpu_id, flags;
};
struct free_memory {
    uint64_t handle;
};
struct export_dmabuf {
    uint64_t handle;
    uint32_t flags, dmabuf_fd;
};
struct dmabuf_info {
    uint64_t size, metadata_ptr;
    uint32_t metadata_size, gpu_id, flags, dmabuf_fd;
};
#define ACQUIRE_VM _IOW('K', 0x15, struct acquire_vm)
#define ALLOC_MEMORY _IOWR('K', 0x16, struct alloc_memory)
#define FREE_MEMORY _IOW('K', 0x17, struct free_memory)
#define GET_DMABUF_INFO _IOWR('K', 0x1c, struct dmabuf_info)
#define EXPORT_DMABUF _IOWR('K', 0x24, struct export_dmabuf)
#define VRAM 1u
#define WRITABLE (1u << 31)

#define SIZE 20480
#define WORDS (SIZE / 4)

struct shared {
    int kfd, fd;
    uint32_t* words;
    uint64_t handle;
};

static struct shared share(void) {
    struct shared shared = {.kfd = open_driver()};
    int render = open(RENDER, O_RDWR | O_CLOEXEC), id = open(GPU_ID, O_RDONLY);
    char text[32] = "";
    CHECK(render >= 0 && read(id, text, sizeof text - 1) > 0, "nodes: %s", strerror(errno));
    close(id);
    uint32_t gpu_id = (uint32_t)strtoul(text, NULL, 10);
    struct acquire_vm acquire = {(uint32_t)render, gpu_id};
    EQUAL(ioctl(shared.kfd, ACQUIRE_VM, &acquire), 0);
    void* place = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct alloc_memory alloc = {(uintptr_t)place, SIZE, 0, 0, gpu_id, VRAM | WRITABLE};
    EQUAL(ioctl(shared.kfd, ALLOC_MEMORY, &alloc), 0);
    shared.handle = alloc.handle;
    shared.words = mmap(place, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, render, (off_t)alloc.mmap_offset);
    CHECK(shared.words == place, "mmap: %s", strerror(errno));
    struct export_dmabuf export = {alloc.handle, O_CLOEXEC, 0};
    EQUAL(ioctl(shared.kfd, EXPORT_DMABUF, &export), 0);
    shared.fd = (int)export.dmabuf_fd;
    fill_noise(shared.words, WORDS, 5);
    return shared;
}

// What a process finds behind the descriptor; 0, or the line where it was otherwise.
static int find(int fd, uint32_t first) {
#define IS(condition)                    \
    do {                                 \
        if (!(condition)) return __LINE__; \
    } while (0)
    uint32_t* want = malloc(SIZE);
    fill_noise(want, WORDS, 5);
    want[0] = first;
    IS(lseek(fd, 0, SEEK_END) == SIZE);
    IS(lseek(fd, 0, SEEK_SET) == 0);
    IS(syscall(SYS_lseek, fd, 0, SEEK_END) == SIZE);
    IS(lseek(fd, 4096, SEEK_SET) == -1 && errno == EINVAL);
    uint32_t* words = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    IS(words != MAP_FAILED && memcmp(words, want, SIZE) == 0);
    const uint32_t* tail = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, SIZE - 4096);
    IS(tail != MAP_FAILED && memcmp(tail, want + WORDS - 1024, 4096) == 0);
    IS(mmap(NULL, SIZE + 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EINVAL);
    IS(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, SIZE) == MAP_FAILED && errno == EINVAL);
    IS(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) == MAP_FAILED && errno == EINVAL);
    uint32_t* fixed = mmap(words, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    IS(fixed == words && fixed[1] == want[1]);
    words[0] = first + 1;
    IS(munmap((void*)tail, 4096) == 0 && munmap(words, SIZE) == 0);
    free(want);
    return 0;
}

static void in_a_child(int fd, uint32_t first) {
    pid_t child = fork();
    if (child == 0) _exit(find(fd, first) & 0xff);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "status %#x", status);
}

CASE(shared_memory_is_mapped_by_its_descriptor) {
    struct shared shared = share();
    uint32_t first = shared.words[0];
    EQUAL(find(shared.fd, first), 0);
    EQUAL(shared.words[0], first + 1);
    in_a_child(shared.fd, first + 1);
    EQUAL(shared.words[0], first + 2);
    // A copy, after the original is closed.
    int copy = dup(shared.fd);
    close(shared.fd);
    in_a_child(copy, first + 2);
    // The memory stays while the descriptor is there.
    munmap(shared.words, SIZE);
    struct free_memory gone = {shared.handle};
    EQUAL(ioctl(shared.kfd, FREE_MEMORY, &gone), 0);
    EQUAL(find(copy, first + 3), 0);
    struct dmabuf_info info = {.dmabuf_fd = (uint32_t)copy};
    EQUAL(ioctl(shared.kfd, GET_DMABUF_INFO, &info), 0);
    EQUAL(info.size, SIZE);
    EQUAL(info.flags, VRAM);
}

CASE(descriptors_of_shared_memory_are_sent_and_outlive_their_process) {
    int sockets[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "socketpair: %s", strerror(errno));
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    char byte = 'x';
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    pid_t child = fork();
    if (child == 0) {
        // The GPU is this process's, and goes with it.
        struct shared shared = share();
        shared.words[0] = 77;
        control.header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), &shared.fd, sizeof shared.fd);
        _exit(sendmsg(sockets[1], &message, 0) == 1 ? 0 : 1);
    }
    int status = 0, fd = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "status %#x", status);
    EQUAL(recvmsg(sockets[0], &message, MSG_CMSG_CLOEXEC), 1);
    memcpy(&fd, CMSG_DATA(&control.header), sizeof fd);
    EQUAL(find(fd, 77), 0);
    // This process has no GPU yet; with one, it knows the descriptor too.
    struct dmabuf_info info = {.dmabuf_fd = (uint32_t)fd};
    EQUAL(ioctl(open_driver(), GET_DMABUF_INFO, &info), 0);
    EQUAL(info.size, SIZE);
}

CASE(files_are_sought_and_mapped_as_ever) {
    FILE* file = tmpfile();
    CHECK(file && ftruncate(fileno(file), 8192) == 0, "tmpfile: %s", strerror(errno));
    int fd = fileno(file);
    EQUAL(lseek(fd, 4096, SEEK_SET), 4096);
    EQUAL(lseek(fd, 0, SEEK_CUR), 4096);
    EQUAL(lseek(fd, 1, SEEK_END), 8193);
    EQUAL(lseek(-1, 0, SEEK_END), -1);
    EQUAL(errno, EBADF);
    char* bytes = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(bytes != MAP_FAILED && bytes[8191] == 0, "mmap: %s", strerror(errno));
    struct dmabuf_info info = {.dmabuf_fd = (uint32_t)fd};
    EQUAL(ioctl(open_driver(), GET_DMABUF_INFO, &info), -1);
    EQUAL(errno, EINVAL);
}
