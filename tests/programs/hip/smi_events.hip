// Events for system management: what a program that watches the card is told.
#include "hip_cases.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/kfd_ioctl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>

#include <string>

// A descriptor of the GPU's events that are chosen by the mask.
static int watch(uint64_t mask) {
    const char* nodes = "/sys/class/kfd/kfd/topology/nodes";
    unsigned gpu = 0;
    DIR* entries = opendir(nodes);
    CHECK(entries, "no directory %s", nodes);
    while (dirent* entry = readdir(entries)) {
        FILE* file = fopen((std::string(nodes) + "/" + entry->d_name + "/gpu_id").c_str(), "r");
        if (file && gpu == 0 && fscanf(file, "%u", &gpu) != 1) gpu = 0;
        if (file) fclose(file);
    }
    closedir(entries);
    int kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    CHECK(kfd >= 0, "no /dev/kfd");
    kfd_ioctl_smi_events_args none = {gpu ^ 0x8000u, 0};
    CHECK(ioctl(kfd, AMDKFD_IOC_SMI_EVENTS, &none) == -1 && errno == EINVAL, "events of a GPU that is not there");
    kfd_ioctl_smi_events_args args = {gpu, 0};
    CHECK(ioctl(kfd, AMDKFD_IOC_SMI_EVENTS, &args) == 0, "SMI_EVENTS of GPU %u: errno %d", gpu, errno);
    int events = (int)args.anon_fd;
    char text[96];
    CHECK(read(events, text, sizeof text) == -1 && errno == EAGAIN, "an event before any was chosen");
    CHECK(write(events, &mask, sizeof mask) == sizeof mask, "the mask is not taken: errno %d", errno);
    return events;
}

__global__ void store(uint32_t* to) { *to = 1; }

static int faults = -1;

// Until HIP 6 the runtime ends the process when it hears of the fault; by then the event is there.
static void at_abort(int) {
    char text[97] = {0};
    struct pollfd ready = {faults, POLLIN, 0};
    if (poll(&ready, 1, 0) != 1 || !(ready.revents & POLLIN)) _exit(2);
    ssize_t length = read(faults, text, sizeof text - 1);
    if (length <= 0) _exit(3);
    unsigned kind = 0, task = 0;
    char name[97] = {0};
    if (sscanf(text, "%x %x:%96s", &kind, &task, name) != 3) _exit(4);
    _exit(kind == KFD_SMI_EVENT_VMFAULT && task != 0 && name[0] ? 77 : 5);
}

CASE(smi_event_of_a_page_fault) {
    static char said[1 << 14];
    int status = in_child([] {
        // The runtime opens the GPU; events are chosen before the fault.
        Buffer<uint32_t> words(64);
        words.clear();
        faults = watch(KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_VMFAULT));
        signal(SIGABRT, at_abort);
        store<<<1, 1>>>((uint32_t*)0x7e0000000000);
        (void)hipDeviceSynchronize();
        if (HIP_VERSION_MAJOR >= 7) at_abort(0);
        _exit(6);
    }, said, sizeof said);
    CHECK(status == 77 << 8, "status %#x: %s", status, said);
}

CASE(smi_events_are_those_that_were_chosen) {
    static char said[1 << 14];
    int status = in_child([] {
        int kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
        CHECK(kfd >= 0, "no /dev/kfd");
        int start = watch(1ull << 11), end = watch(1ull << 12);
        Buffer<uint32_t> words(64);
        words.clear();
        char text[97] = {0};
        CHECK(read(end, text, sizeof text - 1) == -1 && errno == EAGAIN, "an end before it: %s", text);
        CHECK(read(start, text, sizeof text - 1) > 0, "no beginning: errno %d", errno);
        unsigned kind = 0, task = 0;
        CHECK(sscanf(text, "%x %x ", &kind, &task) == 2 && kind == 12 && task != 0, "\"%s\" is no beginning", text);
        CHECK(read(start, text, sizeof text - 1) == -1 && errno == EAGAIN, "a second beginning: %s", text);
        _exit(78);
    }, said, sizeof said);
    CHECK(status == 78 << 8, "status %#x: %s", status, said);
}
