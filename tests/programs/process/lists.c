// What programs see that look for GPUs among the machine's devices, as hwloc, libudev, RCCL and MPI do.
#include "process.h"

#include <dirent.h>
#include <fts.h>
#include <glob.h>
#include <limits.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#define DEVICES "/sys/bus/pci/devices"
#define SYSFS 0x62656572
#define TMPFS 0x01021994

// The address of the GPU, as its own link says.
static const char* address(void) {
    static char text[PATH_MAX];
    CHECK(realpath("/sys/class/drm/card0/device", text), "%s", strerror(errno));
    const char* slash = strrchr(text, '/');
    CHECK(slash && strlen(slash) == 13, "%s", text);
    return slash + 1;
}

static const char* below_devices(const char* name) {
    static char path[PATH_MAX];
    snprintf(path, sizeof path, DEVICES "/%s", name);
    return path;
}

static int lists_it(const char* list, const char* name) {
    DIR* directory = opendir(list);
    int count = 0;
    CHECK(directory, "%s: %s", list, strerror(errno));
    for (struct dirent* entry; (entry = readdir(directory));) count += strcmp(entry->d_name, name) == 0;
    closedir(directory);
    return count;
}

static int all(const struct dirent* entry) {
    return entry->d_name[0] != '.';
}

static int gets_it(const char* name) {
    char entries[32768];
    int fd = open(DEVICES, O_RDONLY | O_DIRECTORY), found = 0;
    for (long count; (count = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0;)
        for (long at = 0; at < count;) {
            struct dirent* entry = (struct dirent*)(entries + at);
            found += strcmp(entry->d_name, name) == 0;
            at += entry->d_reclen;
        }
    close(fd);
    return found;
}

CASE(gpu_is_in_the_lists_of_the_machine) {
    const char* gpu = address();
    EQUAL(lists_it(DEVICES, gpu), 1);
    EQUAL(gets_it(gpu), 1);
    struct dirent** names;
    int count = scandir(DEVICES, &names, all, alphasort), found = 0;
    CHECK(count > 0, "scandir: %s", strerror(errno));
    for (int i = 0; i < count; i++) {
        char vendor[16] = "";
        char path[PATH_MAX];
        found += strcmp(names[i]->d_name, gpu) == 0;
        // Those of the machine are what they are.
        snprintf(path, sizeof path, DEVICES "/%s/vendor", names[i]->d_name);
        int fd = open(path, O_RDONLY);
        CHECK(fd >= 0 && read(fd, vendor, 15) > 2 && !strncmp(vendor, "0x", 2), "%s: %s", path, strerror(errno));
        close(fd);
        char link[PATH_MAX] = "";
        CHECK(readlink(below_devices(names[i]->d_name), link, sizeof link - 1) > 0, "%s", strerror(errno));
        CHECK(!strncmp(link, "../../../devices/", 17) && strstr(link, names[i]->d_name), "%s", link);
    }
    EQUAL(found, 1);
    glob_t matches;
    EQUAL(glob(DEVICES "/*", 0, NULL, &matches), 0);
    EQUAL(matches.gl_pathc, (size_t)count);
    char* roots[] = {DEVICES "/", NULL};
    FTS* walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    found = 0;
    for (FTSENT* entry; (entry = fts_read(walk));) found += strcmp(entry->fts_path, below_devices(gpu)) == 0;
    fts_close(walk);
    EQUAL(found, 1);
    char bus[16];
    snprintf(bus, sizeof bus, "%.7s", gpu);
    EQUAL(lists_it("/sys/class/pci_bus", bus), 1);
}

// As RCCL names a device: by its bus, and up again from there.
CASE(gpu_is_found_by_its_bus) {
    const char* gpu = address();
    char path[256], result[PATH_MAX], wanted[128];
    snprintf(path, sizeof path, "/sys/class/pci_bus/%.7s/../../%s", gpu, gpu);
    CHECK(realpath(path, result), "%s: %s", path, strerror(errno));
    // Its device is the one behind a bridge of a root bus.
    size_t length = strlen(result);
    CHECK(length == strlen("/sys/devices/pci0000:00/0000:00:00.0/0000:00:00.0") && length < sizeof wanted, "%s", result);
    CHECK(!strncmp(result, "/sys/devices/pci", 16) && !strcmp(result + length - 12, gpu), "%s", result);
    strcpy(wanted, result);
    char bridge[16] = "";
    snprintf(path, sizeof path, "%s/../class", wanted);
    int above = open(path, O_RDONLY);
    CHECK(above >= 0 && read(above, bridge, 15) > 0 && !strcmp(bridge, "0x060400\n"), "%s: %s", path, bridge);
    close(above);
    // The node that it names is one that the machine tells of, or none.
    char node[16] = "";
    snprintf(path, sizeof path, "%s/numa_node", wanted);
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && read(fd, node, 15) > 0, "%s", strerror(errno));
    if (node[0] != '-') {
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpumap", atoi(node));
        EQUAL(access(path, R_OK), 0);
    }
    for (int i = 0; i < 3; i++) {
        const char* names[] = {"local_cpus", "local_cpulist", "modalias"};
        snprintf(path, sizeof path, "%s/%s", wanted, names[i]);
        EQUAL(access(path, R_OK), 0);
    }
}

// A descriptor of a prepared file tells of sysfs, and leads to the path that it was opened by.
static void is_of(long kind, const char* path) {
    struct statfs told = {0};
    char link[64], shown[PATH_MAX] = "", whole[PATH_MAX];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0, "%s: %s", path, strerror(errno));
    EQUAL(fstatfs(fd, &told), 0);
    EQUAL(told.f_type, kind);
    told.f_type = 0;
    EQUAL(syscall(SYS_fstatfs, fd, &told), 0);
    EQUAL(told.f_type, kind);
    EQUAL(statfs(path, &told), 0);
    EQUAL(told.f_type, kind);
    told.f_type = 0;
    EQUAL(syscall(SYS_statfs, path, &told), 0);
    EQUAL(told.f_type, kind);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    CHECK(realpath(path, whole), "%s", strerror(errno));
    for (int way = 0; way < 3; way++) {
        memset(shown, 0, sizeof shown);
        ssize_t count = way == 0   ? readlink(link, shown, sizeof shown - 1)
                        : way == 1 ? readlinkat(AT_FDCWD, link, shown, sizeof shown - 1)
                                   : syscall(SYS_readlink, link, shown, sizeof shown - 1);
        CHECK(count > 0 && strcmp(shown, whole) == 0, "way %d: %s is shown as %s", way, whole, shown);
    }
    close(fd);
}

CASE(files_are_in_the_file_systems_that_they_stand_for) {
    is_of(SYSFS, TOPOLOGY);
    is_of(SYSFS, GPU_ID);
    is_of(SYSFS, DEVICES);
    is_of(SYSFS, "/sys/class/drm/card0/device/vendor");
    // Its content is made when it is opened.
    is_of(SYSFS, "/sys/class/drm/card0/device/gpu_busy_percent");
    is_of(TMPFS, "/dev/dri");
    struct statfs here, root;
    EQUAL(statfs("/", &here), 0);
    int fd = open("/", O_RDONLY | O_DIRECTORY);
    EQUAL(fstatfs(fd, &root), 0);
    EQUAL(here.f_type, root.f_type);
    CHECK(root.f_type != SYSFS && root.f_blocks > 0, "the root is %#lx", (long)root.f_type);
}

CASE(parameters_of_the_module_are_those_of_linux) {
    static const char* const known[][2] = {{"cwsr_enable", "1\n"}, {"emu_mode", "0\n"}, {"sched_policy", "0\n"},
        {"noretry", "-1\n"}, {"hws_gws_support", "N\n"}, {"ppfeaturemask", "0xfff7bfff\n"}, {"lockup_timeout", "\n"}};
    int class = open("/sys/module", O_RDONLY | O_DIRECTORY);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char path[PATH_MAX], text[64];
        struct stat stat_of_it;
        struct statx more;
        for (int way = 0; way < 3; way++) {
            snprintf(path, sizeof path, "%samdgpu/parameters/%s", way == 1 ? "" : "/sys/module/", known[i][0]);
            int fd = way == 0   ? open(path, O_RDONLY)
                     : way == 1 ? openat(class, path, O_RDONLY)
                                : (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
            memset(text, 0, sizeof text);
            CHECK(fd >= 0 && read(fd, text, sizeof text - 1) >= 0, "%s: %s", path, strerror(errno));
            CHECK(strcmp(text, known[i][1]) == 0, "%s is %s", path, text);
            close(fd);
        }
        EQUAL(access(path, R_OK), 0);
        EQUAL(stat(path, &stat_of_it), 0);
        EQUAL(statx(AT_FDCWD, path, 0, STATX_MODE, &more), 0);
        CHECK(open(path, O_WRONLY) < 0 && errno == EACCES, "%s may be written to", path);
    }
}
