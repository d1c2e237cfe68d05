// What the probes of processes share: the driver's files, used without any library of ROCm.
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "../cases.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define KFD "/dev/kfd"
#define RENDER "/dev/dri/renderD128"
#define TOPOLOGY "/sys/class/kfd/kfd/topology"
#define GPU_ID TOPOLOGY "/nodes/1/gpu_id"

// AMDKFD_IOC_GET_VERSION (linux/kfd_ioctl.h).
struct kfd_version {
    uint32_t major, minor;
};
#define GET_VERSION _IOR('K', 0x01, struct kfd_version)

// 0 if the driver answers on a descriptor, else an errno.
__attribute__((unused)) static int driver_answers(int fd) {
    struct kfd_version version = {0, 0};
    if (ioctl(fd, GET_VERSION, &version) != 0) return errno;
    return version.major == 1 ? 0 : EPROTO;
}

// A descriptor of the driver that answers.
__attribute__((unused)) static int open_driver(void) {
    int fd = open(KFD, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0, "open: %s", strerror(errno));
    EQUAL(driver_answers(fd), 0);
    return fd;
}

// 1 if a descriptor has the number of a GPU to read.
__attribute__((unused)) static int reads_gpu_id(int fd) {
    char text[64] = "";
    ssize_t count = read(fd, text, sizeof text - 1);
    return count > 0 && strtoul(text, NULL, 10) != 0;
}

// What a shell command, started by `system`, ends with.
__attribute__((unused)) static int shell(const char* command) {
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}
