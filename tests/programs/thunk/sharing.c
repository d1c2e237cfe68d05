// Memory that leaves the process it was made in, attributes of ranges, and the ioctls that the thunk has no function for.
#include "thunk_cases.h"

#include <fcntl.h>
#include <linux/ioctl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

// The part of linux `kfd_ioctl.h` that is used here; the thunk's packages do not bring it.
struct create_queue {
    uint64_t ring, write, read, doorbell;
    uint32_t ring_size, gpu_id, type, percentage, priority, id;
    uint64_t eop;
    uint64_t eop_size, save;
    uint32_t save_size, control_size, sdma_engine, pad;
};
struct destroy_queue {
    uint32_t id, pad;
};
#define CREATE_QUEUE _IOWR('K', 0x02, struct create_queue)
#define DESTROY_QUEUE _IOWR('K', 0x03, struct destroy_queue)

CASE(dma_buf_is_exported_and_imported) {
    open_thunk();
    uint32_t* memory = (uint32_t*)in_vram(2 * PAGE);
    int fd = -1;
    HSAuint64 offset = 99;
    memory[1500] = 4711;
    GOOD(hsaKmtExportDMABufHandle(memory + 1024, PAGE, &fd, &offset));
    CHECK(fd >= 0, "no descriptor");
    EQUAL(offset, PAGE);
    HsaGraphicsResourceInfo info = {0};
    HSAuint32 nodes[1] = {gpu_node};
    HSAuint64 alternate = 0;
    GOOD(hsaKmtRegisterGraphicsHandleToNodes((HSAuint64)fd, &info, 1, nodes));
    close(fd);
    EQUAL(info.SizeInBytes, 2 * PAGE);
    GOOD(hsaKmtMapMemoryToGPU(info.MemoryAddress, info.SizeInBytes, &alternate));
    struct queue queue = make_queue(HSA_QUEUE_SDMA);
    uint32_t* seen = (uint32_t*)in_system(PAGE);
    put_copy(&queue, seen, (uint32_t*)info.MemoryAddress + 1500, 4);
    put_write(&queue, info.MemoryAddress, 31);
    finish(&queue);
    EQUAL(*seen, 4711);
    EQUAL(memory[0], 31);
    HsaPointerInfo pointer = {0};
    GOOD(hsaKmtQueryPointerInfo(info.MemoryAddress, &pointer));
    EQUAL(pointer.Type, HSA_POINTER_REGISTERED_GRAPHICS);
    end_queue(&queue);
    GOOD(hsaKmtUnmapMemoryToGPU(info.MemoryAddress));
    GOOD(hsaKmtDeregisterMemory(info.MemoryAddress));
    give_back(memory, 2 * PAGE);
}

// Sends a descriptor over a socket, or takes one.
static void send_descriptor(int socket, int fd) {
    char control[CMSG_SPACE(sizeof fd)] = {0}, byte = 1;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    CHECK(sendmsg(socket, &message, 0) == 1, "sendmsg");
}
static int take_descriptor(int socket) {
    char control[CMSG_SPACE(sizeof(int))] = {0}, byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK(recvmsg(socket, &message, 0) == 1, "recvmsg");
    int fd = -1;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

CASE(dma_buf_goes_to_another_process) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        int fd = take_descriptor(ends[1]);
        open_thunk();
        HsaGraphicsResourceInfo info = {0};
        HSAuint32 nodes[1] = {gpu_node};
        HSAuint64 alternate = 0;
        GOOD(hsaKmtRegisterGraphicsHandleToNodes((HSAuint64)fd, &info, 1, nodes));
        GOOD(hsaKmtMapMemoryToGPU(info.MemoryAddress, info.SizeInBytes, &alternate));
        struct queue queue = make_queue(HSA_QUEUE_COMPUTE);
        put_write(&queue, (uint32_t*)info.MemoryAddress + 5, 55);
        finish(&queue);
        end_queue(&queue);
        _exit(0);
    }
    open_thunk();
    uint32_t* memory = (uint32_t*)in_vram(PAGE);
    memory[5] = 0;
    int fd = -1, status = 0;
    HSAuint64 offset = 0;
    GOOD(hsaKmtExportDMABufHandle(memory, PAGE, &fd, &offset));
    send_descriptor(ends[0], fd);
    close(fd);
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the other process ended with %#x", status);
    EQUAL(memory[5], 55);
}

CASE(shared_handle_goes_to_another_process) {
    int ends[2];
    CHECK(pipe(ends) == 0, "pipe");
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    HsaSharedMemoryHandle handle;
    if (child == 0) {
        close(ends[1]);
        CHECK(read(ends[0], &handle, sizeof handle) == sizeof handle, "no handle");
        open_thunk();
        void* memory = NULL;
        HSAuint64 size = 0, alternate = 0;
        GOOD(hsaKmtRegisterSharedHandle((const HsaSharedMemoryHandle*)&handle, &memory, &size));
        EQUAL(size, PAGE);
        GOOD(hsaKmtMapMemoryToGPU(memory, size, &alternate));
        HsaPointerInfo pointer = {0};
        GOOD(hsaKmtQueryPointerInfo(memory, &pointer));
        EQUAL(pointer.Type, HSA_POINTER_REGISTERED_SHARED);
        struct queue queue = make_queue(HSA_QUEUE_SDMA);
        put_write(&queue, (uint32_t*)memory + 8, 88);
        finish(&queue);
        end_queue(&queue);
        GOOD(hsaKmtUnmapMemoryToGPU(memory));
        GOOD(hsaKmtDeregisterMemory(memory));
        _exit(0);
    }
    open_thunk();
    uint32_t* memory = (uint32_t*)in_vram(PAGE);
    memory[8] = 0;
    int status = 0;
    GOOD(hsaKmtShareMemory(memory, PAGE, &handle));
    CHECK(write(ends[1], &handle, sizeof handle) == sizeof handle, "write");
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the other process ended with %#x", status);
    EQUAL(memory[8], 88);
}

CASE(refused_sharing) {
    open_thunk();
    static uint32_t mine[1024];
    int fd = -1;
    HSAuint64 offset = 0, size = 0;
    void* memory = NULL;
    HsaSharedMemoryHandle handle = {0};
    HsaGraphicsResourceInfo info = {0};
    HSAuint32 nodes[1] = {gpu_node};
    CHECK(hsaKmtExportDMABufHandle(mine, PAGE, &fd, &offset) != HSAKMT_STATUS_SUCCESS, "memory of the program was exported");
    CHECK(hsaKmtShareMemory(mine, PAGE, &handle) != HSAKMT_STATUS_SUCCESS, "memory of the program was shared");
    CHECK(hsaKmtShareMemory(NULL, PAGE, &handle) != HSAKMT_STATUS_SUCCESS, "nothing was shared");
    CHECK(hsaKmtRegisterSharedHandle((const HsaSharedMemoryHandle*)&handle, &memory, &size) != HSAKMT_STATUS_SUCCESS,
          "a handle of zeros was taken");
    int null = open("/dev/null", O_RDWR);
    CHECK(hsaKmtRegisterGraphicsHandleToNodes((HSAuint64)null, &info, 1, nodes) != HSAKMT_STATUS_SUCCESS,
          "/dev/null was imported");
}

CASE(range_has_the_attributes_it_was_given) {
    open_thunk();
    char* memory = (char*)mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HSA_SVM_ATTRIBUTE set[] = {
        {HSA_SVM_ATTR_SET_FLAGS, HSA_SVM_FLAG_HOST_ACCESS | HSA_SVM_FLAG_GPU_EXEC | HSA_SVM_FLAG_COHERENT},
        {HSA_SVM_ATTR_ACCESS, gpu_node},
        {HSA_SVM_ATTR_GRANULARITY, 6},
    };
    GOOD(hsaKmtSVMSetAttr(memory, 16 * PAGE, 3, set));
    HSA_SVM_ATTRIBUTE get[] = {{HSA_SVM_ATTR_SET_FLAGS, 0}, {HSA_SVM_ATTR_GRANULARITY, 0}, {HSA_SVM_ATTR_ACCESS, gpu_node}};
    GOOD(hsaKmtSVMGetAttr(memory, 16 * PAGE, 3, get));
    EQUAL(get[0].value, (HSA_SVM_FLAG_HOST_ACCESS | HSA_SVM_FLAG_GPU_EXEC | HSA_SVM_FLAG_COHERENT));
    EQUAL(get[1].value, 6);
    EQUAL(get[2].type, HSA_SVM_ATTR_ACCESS);
    struct queue queue = make_queue(HSA_QUEUE_COMPUTE);
    put_write(&queue, memory + 5 * PAGE, 123);
    finish(&queue);
    EQUAL(*(uint32_t*)(memory + 5 * PAGE), 123);
    end_queue(&queue);
}

CASE(flags_of_a_range_are_taken_away) {
    open_thunk();
    char* memory = (char*)mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HSA_SVM_ATTRIBUTE set = {HSA_SVM_ATTR_SET_FLAGS, HSA_SVM_FLAG_COHERENT | HSA_SVM_FLAG_GPU_EXEC};
    HSA_SVM_ATTRIBUTE clear = {HSA_SVM_ATTR_CLR_FLAGS, HSA_SVM_FLAG_COHERENT};
    HSA_SVM_ATTRIBUTE get = {HSA_SVM_ATTR_SET_FLAGS, 0};
    GOOD(hsaKmtSVMSetAttr(memory, 4 * PAGE, 1, &set));
    GOOD(hsaKmtSVMSetAttr(memory + PAGE, PAGE, 1, &clear));
    GOOD(hsaKmtSVMGetAttr(memory + PAGE, PAGE, 1, &get));
    CHECK(!(get.value & HSA_SVM_FLAG_COHERENT) && (get.value & HSA_SVM_FLAG_GPU_EXEC), "flags %#x", get.value);
    GOOD(hsaKmtSVMGetAttr(memory, PAGE, 1, &get));
    CHECK(get.value & HSA_SVM_FLAG_COHERENT, "flags %#x", get.value);
    // Of several ranges, those that all of them have.
    GOOD(hsaKmtSVMGetAttr(memory, 4 * PAGE, 1, &get));
    CHECK(!(get.value & HSA_SVM_FLAG_COHERENT), "flags %#x", get.value);
}

CASE(refused_attributes) {
    open_thunk();
    static char memory[4 * PAGE] __attribute__((aligned(4096)));
    HSA_SVM_ATTRIBUTE set = {HSA_SVM_ATTR_SET_FLAGS, HSA_SVM_FLAG_COHERENT};
    HSA_SVM_ATTRIBUTE unknown = {77, 0}, node = {HSA_SVM_ATTR_ACCESS, 99};
    CHECK(hsaKmtSVMSetAttr(memory + 5, PAGE, 1, &set) != HSAKMT_STATUS_SUCCESS, "it begins within a page");
    CHECK(hsaKmtSVMSetAttr(memory, 5, 1, &set) != HSAKMT_STATUS_SUCCESS, "it ends within a page");
    CHECK(hsaKmtSVMSetAttr(memory, 0, 1, &set) != HSAKMT_STATUS_SUCCESS, "it is nothing");
    CHECK(hsaKmtSVMSetAttr(memory, PAGE, 1, &unknown) != HSAKMT_STATUS_SUCCESS, "there is no attribute 77");
    CHECK(hsaKmtSVMSetAttr(memory, PAGE, 1, &node) != HSAKMT_STATUS_SUCCESS, "there is no node 99");
}

// The thunk of this version has no function for a queue of a certain engine.
CASE(sdma_queue_of_a_named_engine_copies) {
    open_thunk();
    int kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    CHECK(kfd >= 0, "no /dev/kfd");
    for (uint32_t engine = 0; engine < the_gpu.NumSdmaEngines; engine++) {
        struct queue doorbells = make_queue(HSA_QUEUE_SDMA);
        uint64_t* indices = (uint64_t*)in_system(PAGE);
        struct create_queue create = {.ring = (uintptr_t)in_system(RING), .write = (uintptr_t)indices,
                                      .read = (uintptr_t)(indices + 1), .ring_size = RING, .gpu_id = the_gpu.KFDGpuID,
                                      .type = 4, .percentage = 100, .priority = 7, .sdma_engine = engine};
        CHECK(ioctl(kfd, CREATE_QUEUE, &create) == 0, "engine %u: %s", engine, strerror(errno));
        // The thunk has mapped the page of all doorbells for the queue before.
        uint64_t* bell = (uint64_t*)(((uintptr_t)doorbells.resource.Queue_DoorBell & ~(uintptr_t)8191) + (create.doorbell & 8191));
        const uint32_t fence[] = {5 | 3 << 16, LOW(indices + 8), HIGH(indices + 8), 70 + engine};
        memcpy((void*)(uintptr_t)create.ring, fence, sizeof fence);
        indices[0] = sizeof fence;
        __atomic_store_n(bell, sizeof fence, __ATOMIC_RELEASE);
        until((volatile uint32_t*)(indices + 8), 70 + engine);
        struct destroy_queue destroy = {create.id, 0};
        CHECK(ioctl(kfd, DESTROY_QUEUE, &destroy) == 0, "%s", strerror(errno));
        end_queue(&doorbells);
    }
    struct create_queue beyond = {.ring = (uintptr_t)in_system(RING), .write = (uintptr_t)in_system(PAGE), .ring_size = RING,
                                  .gpu_id = the_gpu.KFDGpuID, .type = 4, .percentage = 100, .priority = 7, .sdma_engine = 77};
    beyond.read = beyond.write + 8;
    CHECK(ioctl(kfd, CREATE_QUEUE, &beyond) == -1, "there is no engine 77");
}

// Commands that the thunk never sends so, each with the error that Linux answers.
CASE(refused_ioctls) {
    open_thunk();
    struct queue queue = make_queue(HSA_QUEUE_COMPUTE);
    int kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    static const struct {
        unsigned number, bytes;
        uint32_t words[12];
        int error;
    } rows[] = {
        {0x03, 8, {9999}, EINVAL},           // DESTROY_QUEUE of no queue
        {0x07, 24, {0, 0, 9999, 0, 100, 7}, EFAULT}, // UPDATE_QUEUE of no queue
        {0x07, 24, {0, 0, 9999, 0, 101, 7}, EINVAL}, // UPDATE_QUEUE to more than a whole
        {0x1a, 16, {9999, 32, 0, 0}, EFAULT}, // SET_CU_MASK without a mask
        {0x1b, 24, {0, 0, 0, 0, 9999}, EFAULT}, // GET_QUEUE_WAVE_STATE
        {0x09, 8, {9999}, EINVAL},           // DESTROY_EVENT
        {0x0a, 8, {9999}, EINVAL},           // SET_EVENT
        {0x0b, 8, {9999}, EINVAL},           // RESET_EVENT
        {0x0d, 8, {0}, EPERM},               // DBG_REGISTER, which is no more
        {0x16, 40, {0, 0, 4096, 0, 0, 0, 0, 0, 77, 1}, EINVAL}, // ALLOC_MEMORY_OF_GPU of no GPU
        {0x17, 8, {77, 77}, EINVAL},         // FREE_MEMORY_OF_GPU of nothing
        {0x23, 16, {0, 0, 77}, EINVAL},      // AVAILABLE_MEMORY of no GPU
        {0x7f, 8, {0}, ENOTTY},              // no command
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t words[12];
        memcpy(words, rows[i].words, sizeof words);
        errno = 0;
        int result = ioctl(kfd, _IOC(_IOC_READ | _IOC_WRITE, 'K', rows[i].number, rows[i].bytes), words);
        CHECK(result == -1 && errno == rows[i].error, "command %#x gave %d (%s), not %s", rows[i].number, result,
              strerror(errno), strerror(rows[i].error));
    }
    finish(&queue);
    end_queue(&queue);
}
