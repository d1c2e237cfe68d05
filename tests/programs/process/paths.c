// Every way of the C library to reach the driver's files: each finds the prepared ones and none shows where they are.
#include "process.h"

#include <dirent.h>
#include <dlfcn.h>
#include <ftw.h>
#include <fts.h>
#include <glob.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int directory, const char* path, int flags);

#define OPENS(call)                                             \
    do {                                                        \
        int fd_ = (call);                                       \
        CHECK(fd_ >= 0, #call ": %s", strerror(errno));         \
        CHECK(reads_gpu_id(fd_), #call " opened something else"); \
        close(fd_);                                             \
    } while (0)

#define ANSWERS(call)                                   \
    do {                                                \
        int fd_ = (call);                               \
        CHECK(fd_ >= 0, #call ": %s", strerror(errno)); \
        EQUAL(driver_answers(fd_), 0);                  \
        close(fd_);                                     \
    } while (0)

CASE(path_open_all_forms) {
    int class = open("/sys/class", O_RDONLY | O_DIRECTORY);
    int topology = open(TOPOLOGY, O_RDONLY | O_DIRECTORY);
    CHECK(class >= 0 && topology >= 0, "%s", strerror(errno));
    OPENS(open(GPU_ID, O_RDONLY));
    OPENS(open64(GPU_ID, O_RDONLY));
    OPENS(openat(AT_FDCWD, GPU_ID, O_RDONLY));
    OPENS(openat64(AT_FDCWD, GPU_ID, O_RDONLY));
    OPENS(openat(class, "kfd/kfd/topology/nodes/1/gpu_id", O_RDONLY));
    OPENS(openat(class, "../class/kfd/kfd/topology/nodes/1/gpu_id", O_RDONLY));
    OPENS(openat(topology, "nodes/1/gpu_id", O_RDONLY));
    OPENS(openat(topology, "../topology/nodes/1/gpu_id", O_RDONLY));
    OPENS(__open_2(GPU_ID, O_RDONLY));
    OPENS(__open64_2(GPU_ID, O_RDONLY));
    OPENS(__openat_2(topology, "nodes/1/gpu_id", O_RDONLY));
    OPENS((int)syscall(SYS_open, GPU_ID, O_RDONLY));
    OPENS((int)syscall(SYS_openat, AT_FDCWD, GPU_ID, O_RDONLY));
    struct open_how how = {.flags = O_RDONLY};
    OPENS((int)syscall(SYS_openat2, AT_FDCWD, GPU_ID, &how, sizeof how));
    OPENS(open("//sys/./class///kfd/kfd/topology/nodes/1/gpu_id", O_RDONLY));
    OPENS(open("/sys/class/kfd/../kfd/kfd/topology/nodes/1/gpu_id", O_RDONLY));
    OPENS(open("/sys/devices/virtual/kfd/kfd/topology/nodes/1/gpu_id", O_RDONLY));
}

CASE(path_nodes_answer_whatever_opens_them) {
    int dev = open("/dev", O_RDONLY | O_DIRECTORY);
    int dri = open("/dev/dri", O_RDONLY | O_DIRECTORY);
    CHECK(dev >= 0 && dri >= 0, "%s", strerror(errno));
    ANSWERS(open(KFD, O_RDWR));
    ANSWERS(openat(dev, "kfd", O_RDWR));
    ANSWERS(openat(dri, "../kfd", O_RDWR));
    ANSWERS((int)syscall(SYS_openat, dev, "kfd", O_RDWR, 0));
    CHECK(chdir("/dev") == 0, "chdir");
    ANSWERS(open("kfd", O_RDWR));
    ANSWERS(open("./dri/../kfd", O_RDWR));
    CHECK(chdir("/dev/dri") == 0, "chdir");
    ANSWERS(open("../kfd", O_RDWR));
    FILE* stream = fopen(KFD, "r+");
    CHECK(stream, "fopen: %s", strerror(errno));
    EQUAL(driver_answers(fileno(stream)), 0);
    stream = freopen(KFD, "r", stream);
    CHECK(stream, "freopen: %s", strerror(errno));
    EQUAL(driver_answers(fileno(stream)), 0);
    // struct drm_version begins with the version; only the render node of amdgpu says 3.
    for (int way = 0; way < 3; way++) {
        int fd = way == 0 ? open(RENDER, O_RDWR) : way == 1 ? openat(dri, "renderD128", O_RDWR) : open("renderD128", O_RDWR);
        int version[16] = {0};
        CHECK(fd >= 0, "way %d: %s", way, strerror(errno));
        CHECK(ioctl(fd, _IOWR('d', 0, char[64]), version) == 0, "way %d: %s", way, strerror(errno));
        EQUAL(version[0], 3);
        struct stat stat;
        EQUAL(fstat(fd, &stat), 0);
        CHECK(S_ISCHR(stat.st_mode) && stat.st_rdev == makedev(226, 128), "way %d: mode %o, device %#lx", way,
              stat.st_mode, (long)stat.st_rdev);
        close(fd);
    }
    int fd = (int)syscall(SYS_open, KFD, O_RDWR);
    struct kfd_version version;
    EQUAL(syscall(SYS_ioctl, fd, GET_VERSION, &version), 0);
    EQUAL(version.major, 1);
}

CASE(path_streams) {
    char line[64];
    FILE* stream = fopen(GPU_ID, "r");
    CHECK(stream && fgets(line, sizeof line, stream) && atoi(line), "fopen");
    stream = freopen(GPU_ID, "r", stream);
    CHECK(stream && fgets(line, sizeof line, stream) && atoi(line), "freopen");
    fclose(stream);
    stream = fopen64(GPU_ID, "re");
    CHECK(stream && fgets(line, sizeof line, stream) && atoi(line), "fopen64");
    fclose(stream);
    CHECK(chdir(TOPOLOGY) == 0, "chdir");
    stream = fopen("nodes/1/gpu_id", "r");
    CHECK(stream && fgets(line, sizeof line, stream) && atoi(line), "relative");
    fclose(stream);
    CHECK(!fopen(GPU_ID, "w") && errno == EACCES, "writable");
    stream = fopen("/dev/null", "w");
    CHECK(!freopen(GPU_ID, "a", stream) && errno == EACCES, "writable by freopen");
}

// As root, too: the prepared files stay as they are.
CASE(path_files_are_not_written) {
    EQUAL(open(GPU_ID, O_RDWR), -1);
    EQUAL(errno, EACCES);
    EQUAL(creat(GPU_ID, 0644), -1);
    EQUAL(errno, EACCES);
    EQUAL(truncate(GPU_ID, 0), -1);
    int directory = open(TOPOLOGY "/nodes/1", O_RDONLY | O_DIRECTORY);
    EQUAL(openat(directory, "gpu_id", O_WRONLY | O_TRUNC), -1);
    EQUAL(chdir(TOPOLOGY "/nodes/1"), 0);
    EQUAL(open("gpu_id", O_WRONLY | O_TRUNC), -1);
    EQUAL(truncate("gpu_id", 0), -1);
    int fd = creat(KFD, 0600);
    CHECK(fd >= 0, "creat: %s", strerror(errno));
    EQUAL(driver_answers(fd), 0);
    OPENS(open(GPU_ID, O_RDONLY));
}

static int seen(const char* const* names, const char* name) {
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0) return 1;
    return 0;
}

CASE(path_directories) {
    DIR* directory = opendir("/dev/dri");
    CHECK(directory, "opendir: %s", strerror(errno));
    const char* const nodes[] = {"card0", "renderD128", NULL};
    int found = 0;
    for (struct dirent* entry; (entry = readdir(directory));) {
        if (entry->d_name[0] == '.') continue;
        CHECK(seen(nodes, entry->d_name), "%s", entry->d_name);
        CHECK(entry->d_type == DT_CHR, "%s is of type %d", entry->d_name, entry->d_type);
        struct stat stat;
        EQUAL(fstatat(dirfd(directory), entry->d_name, &stat, 0), 0);
        CHECK(S_ISCHR(stat.st_mode), "%s has mode %o", entry->d_name, stat.st_mode);
        found++;
    }
    EQUAL(found, 2);
    closedir(directory);
    struct dirent** list = NULL;
    EQUAL(scandir("/dev/dri", &list, NULL, alphasort), 4);
    CHECK(strcmp(list[3]->d_name, "renderD128") == 0, "%s", list[3]->d_name);
    EQUAL(list[3]->d_type, DT_CHR);
    int class = open("/sys/class", O_RDONLY);
    EQUAL(scandirat(class, "kfd/kfd/topology/nodes", &list, NULL, alphasort), 4);
    directory = fdopendir(open(TOPOLOGY "/nodes", O_RDONLY));
    CHECK(directory && readdir(directory), "fdopendir");
}

static void is_render(const char* what, int result, const struct stat* stat) {
    CHECK(result == 0, "%s: %s", what, strerror(errno));
    CHECK(S_ISCHR(stat->st_mode) && stat->st_rdev == makedev(226, 128), "%s: mode %o, %u:%u", what, stat->st_mode,
          major(stat->st_rdev), minor(stat->st_rdev));
}

static void is_render_x(const char* what, int result, const struct statx* stat) {
    CHECK(result == 0, "%s: %s", what, strerror(errno));
    CHECK(S_ISCHR(stat->stx_mode) && stat->stx_rdev_major == 226 && stat->stx_rdev_minor == 128, "%s: mode %o", what,
          stat->stx_mode);
}

CASE(path_stat_all_forms) {
    struct stat s;
    struct statx x;
    int dri = open("/dev/dri", O_RDONLY);
    is_render("stat", stat(RENDER, &s), &s);
    is_render("lstat", lstat(RENDER, &s), &s);
    is_render("fstatat", fstatat(AT_FDCWD, RENDER, &s, 0), &s);
    is_render("fstatat of a directory", fstatat(dri, "renderD128", &s, 0), &s);
    is_render_x("statx", statx(dri, "renderD128", 0, STATX_ALL, &x), &x);
    is_render("SYS_newfstatat", (int)syscall(SYS_newfstatat, AT_FDCWD, RENDER, &s, 0), &s);
    is_render_x("SYS_statx", (int)syscall(SYS_statx, AT_FDCWD, RENDER, 0, STATX_ALL, &x), &x);
    int fd = open(RENDER, O_RDWR);
    is_render("fstat", fstat(fd, &s), &s);
    is_render("fstatat of a descriptor", fstatat(fd, "", &s, AT_EMPTY_PATH), &s);
    is_render("SYS_fstat", (int)syscall(SYS_fstat, fd, &s), &s);
    is_render("dup", fstat(dup(fd), &s), &s);
    is_render("F_DUPFD", fstat(fcntl(fd, F_DUPFD_CLOEXEC, 100), &s), &s);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    is_render("/proc/self/fd", stat(path, &s), &s);
    EQUAL(chdir("/dev/dri"), 0);
    is_render("relative", stat("renderD128", &s), &s);
    is_render("relative lstat", lstat("./renderD128", &s), &s);
    EQUAL(stat(GPU_ID, &s), 0);
    CHECK(S_ISREG(s.st_mode), "%o", s.st_mode);
    EQUAL(lstat("/sys/class/kfd/kfd", &s), 0);
    CHECK(S_ISLNK(s.st_mode), "%o", s.st_mode);
}

CASE(path_access_all_forms) {
    int dri = open("/dev/dri", O_RDONLY);
    EQUAL(access(KFD, R_OK | W_OK), 0);
    EQUAL(eaccess(RENDER, R_OK | W_OK), 0);
    EQUAL(euidaccess(RENDER, R_OK | W_OK), 0);
    EQUAL(faccessat(AT_FDCWD, RENDER, R_OK | W_OK, AT_EACCESS), 0);
    EQUAL(faccessat(dri, "renderD128", R_OK | W_OK, 0), 0);
    EQUAL(syscall(SYS_access, RENDER, W_OK), 0);
    EQUAL(syscall(SYS_faccessat2, AT_FDCWD, RENDER, W_OK, 0), 0);
    EQUAL(access(KFD, X_OK), -1);
    EQUAL(access("/dev/dri/renderD129", F_OK), -1);
    EQUAL(errno, ENOENT);
    EQUAL(access(GPU_ID, R_OK), 0);
    EQUAL(chdir("/dev/dri"), 0);
    EQUAL(access("renderD128", R_OK | W_OK), 0);
}

static void shows(const char* what, const char* got, const char* want) {
    CHECK(got, "%s: %s", what, strerror(errno));
    CHECK(strcmp(got, want) == 0, "%s gave %s, not %s", what, got, want);
}

CASE(path_results_do_not_show_the_prepared_files) {
    char text[PATH_MAX], link[64];
    int fd = open(RENDER, O_RDWR);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t count = readlink(link, text, sizeof text);
    text[count < 0 ? 0 : count] = 0;
    shows("readlink", text, RENDER);
    count = readlink(link, text, 6);
    EQUAL(count, 6);
    text[6] = 0;
    shows("short readlink", text, "/dev/d");
    count = syscall(SYS_readlinkat, AT_FDCWD, link, text, sizeof text);
    text[count < 0 ? 0 : count] = 0;
    shows("SYS_readlinkat", text, RENDER);
    shows("realpath", realpath(RENDER, text), RENDER);
    shows("canonicalize_file_name", canonicalize_file_name("/dev/../dev/kfd"), KFD);
    shows("realpath of a link", realpath("/sys/class/kfd/kfd/topology", NULL), "/sys/devices/virtual/kfd/kfd/topology");
    EQUAL(chdir("/sys/class/kfd"), 0);
    shows("getcwd", getcwd(NULL, 0), "/sys/class/kfd");
    shows("getcwd with little room", getcwd(text, sizeof "/sys/class/kfd"), "/sys/class/kfd");
    CHECK(!getcwd(text, sizeof "/sys/class/kfd" - 1) && errno == ERANGE, "getcwd in too little room");
    shows("getcwd with its own room", getcwd(NULL, 64), "/sys/class/kfd");
    shows("relative realpath", realpath("kfd/topology", NULL), "/sys/devices/virtual/kfd/kfd/topology");
    EQUAL(syscall(SYS_getcwd, text, sizeof text), (long)sizeof "/sys/class/kfd");
    shows("SYS_getcwd", text, "/sys/class/kfd");
    EQUAL(fchdir(open("/dev/dri", O_RDONLY)), 0);
    shows("getcwd", getcwd(text, sizeof text), "/dev/dri");
    // Out of the prepared files by going up.
    EQUAL(chdir("/sys/class/kfd"), 0);
    CHECK(access("../net", F_OK) == 0, "up, beside: %s", strerror(errno));
    CHECK(access("../../../etc/passwd", F_OK) == 0, "up to the root: %s", strerror(errno));
    EQUAL(chdir(".."), 0);
    shows("getcwd", getcwd(text, sizeof text), "/sys/class");
    OPENS(open("kfd/kfd/topology/nodes/1/gpu_id", O_RDONLY));
}

CASE(path_glob) {
    glob_t found;
    EQUAL(glob("/dev/dri/render*", 0, NULL, &found), 0);
    EQUAL(found.gl_pathc, 1);
    shows("glob", found.gl_pathv[0], RENDER);
    EQUAL(glob(TOPOLOGY "/nodes/*/gpu_id", GLOB_APPEND, NULL, &found), 0);
    EQUAL(found.gl_pathc, 3);
    shows("glob", found.gl_pathv[2], GPU_ID);
    globfree(&found);
    EQUAL(chdir("/dev"), 0);
    EQUAL(glob("dri/c*", 0, NULL, &found), 0);
    shows("relative glob", found.gl_pathv[0], "dri/card0");
}

static int files, shown_wrong;
static int visit(const char* path, const struct stat* stat, int kind, struct FTW* ftw) {
    (void)stat;
    shown_wrong += strncmp(path, "/sys/", 5) != 0 || path[ftw->base - 1] != '/';
    files += kind == FTW_F && strcmp(path + ftw->base, "gpu_id") == 0;
    return 0;
}
static int old_visit(const char* path, const struct stat* stat, int kind) {
    (void)stat;
    shown_wrong += strncmp(path, "/sys/", 5) != 0;
    files += kind == FTW_F && strstr(path, "/gpu_id") != NULL;
    return 0;
}

CASE(path_tree_walks) {
    EQUAL(nftw(TOPOLOGY, visit, 8, FTW_PHYS), 0);
    EQUAL(files, 2);
    EQUAL(nftw(TOPOLOGY, visit, 8, FTW_PHYS | FTW_CHDIR), 0);
    EQUAL(files, 4);
    EQUAL(ftw(TOPOLOGY, old_visit, 8), 0);
    EQUAL(files, 6);
    EQUAL(shown_wrong, 0);
    char path[] = TOPOLOGY;
    for (int options = FTS_PHYSICAL; options <= (FTS_PHYSICAL | FTS_NOCHDIR); options += FTS_NOCHDIR) {
        char* paths[] = {path, NULL};
        FTS* walk = fts_open(paths, options, NULL);
        CHECK(walk, "fts_open");
        int found = 0;
        for (FTSENT* entry; (entry = fts_read(walk));) {
            CHECK(strncmp(entry->fts_path, TOPOLOGY, strlen(TOPOLOGY)) == 0, "fts_path %s", entry->fts_path);
            EQUAL(strlen(entry->fts_path), entry->fts_pathlen);
            if (entry->fts_info == FTS_F && strcmp(entry->fts_name, "gpu_id") == 0) {
                int fd = open(entry->fts_accpath, O_RDONLY);
                CHECK(fd >= 0, "%s: %s", entry->fts_accpath, strerror(errno));
                close(fd);
                found++;
            }
        }
        EQUAL(found, 2);
        EQUAL(fts_close(walk), 0);
    }
}

CASE(path_tools_of_coreutils) {
    EQUAL(shell("test -c /dev/kfd && test -c /dev/dri/renderD128 && test -w /dev/kfd && test ! -c /dev/dri"), 0);
    EQUAL(shell("test \"$(stat -c %t:%T /dev/dri/renderD128)\" = e2:80"), 0);
    EQUAL(shell("test \"$(stat -c %F /dev/kfd)\" = 'character special file'"), 0);
    EQUAL(shell("ls -l /dev/dri | grep -q '^crw-rw-rw-.* 226, 128 .* renderD128$'"), 0);
    EQUAL(shell("cd /dev/dri && ls -l | grep -q '^crw-rw-rw-.* 226, 128 .* renderD128$'"), 0);
    EQUAL(shell("test \"$(find /dev/dri -type c | sort | tr '\\n' ' ')\" = '/dev/dri/card0 /dev/dri/renderD128 '"), 0);
    EQUAL(shell("test \"$(find " TOPOLOGY " -name gpu_id | wc -l)\" = 2"), 0);
    EQUAL(shell("test $(cat " GPU_ID ") -gt 0 && test $(head -c 3 " GPU_ID ") -gt 0"), 0);
    EQUAL(shell("grep -rq gfx_target_version /sys/class/kfd/kfd/topology/nodes"), 0);
    EQUAL(shell("test \"$(realpath /sys/class/kfd/kfd)\" = /sys/devices/virtual/kfd/kfd"), 0);
    EQUAL(shell("test \"$(readlink -f /dev/kfd)\" = /dev/kfd"), 0);
    EQUAL(shell("cd /sys/class/kfd && test \"$(pwd -P)\" = /sys/class/kfd && cd kfd/topology && test -e nodes/1/gpu_id"), 0);
    EQUAL(shell("test \"$(echo /dev/dri/render*)\" = /dev/dri/renderD128"), 0);
    EQUAL(shell("exec 5<>/dev/kfd && test \"$(readlink /proc/self/fd/5)\" = /dev/kfd"), 0);
    EQUAL(shell("test \"$(ls " TOPOLOGY "/nodes | tr '\\n' ' ')\" = '0 1 '"), 0);
    EQUAL(shell("tar -C /sys/class/kfd/kfd -cf - topology/nodes/1/gpu_id | tar -xOf - | grep -q [1-9]"), 0);
}

// What Python's ctypes does: the C library is opened by its name, and asked for its functions.
CASE(functions_of_the_c_library_that_are_looked_up_in_it) {
    void* library = dlopen("libc.so.6", RTLD_NOW);
    CHECK(library, "%s", dlerror());
    int (*open_it)(const char*, int, ...) = (int (*)(const char*, int, ...))dlsym(library, "open");
    int (*control)(int, unsigned long, ...) = (int (*)(int, unsigned long, ...))dlsym(library, "ioctl");
    int (*status)(const char*, struct stat*) = (int (*)(const char*, struct stat*))dlsym(library, "stat");
    CHECK(open_it && control && status, "%s", dlerror());
    struct stat s;
    EQUAL(status("/dev/kfd", &s), 0);
    CHECK(S_ISCHR(s.st_mode), "mode %o", s.st_mode);
    int fd = open_it("/dev/kfd", O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0, "%s", strerror(errno));
    uint32_t version[2] = {0, 0};
    EQUAL(control(fd, GET_VERSION, version), 0);
    EQUAL(version[0], 1);
    EQUAL(close(fd), 0);
    // Others are the C library's, and what is not there is said as ever.
    CHECK(dlsym(library, "qsort") == dlsym(RTLD_DEFAULT, "qsort"), "qsort");
    EQUAL((long)dlsym(library, "no_such_function"), 0);
    CHECK(strstr(dlerror(), "no_such_function"), "the error names it");
    // The next library behind the program itself is the one that was loaded before, not the one behind that.
    CHECK(dlsym(RTLD_NEXT, "open") == dlsym(RTLD_DEFAULT, "open"), "the place of the caller counts");
}

// What does not concern the GPU is as it was.
CASE(path_of_others_is_left_alone) {
    char text[PATH_MAX];
    struct stat s;
    EQUAL(stat("/dev/null", &s), 0);
    CHECK(S_ISCHR(s.st_mode) && s.st_rdev == makedev(1, 3), "/dev/null");
    EQUAL(open("/dev/kfd0", O_RDWR), -1);
    EQUAL(errno, ENOENT);
    EQUAL(open("/sys/class/kfdx", O_RDONLY), -1);
    EQUAL(errno, ENOENT);
    EQUAL(chdir("/tmp"), 0);
    int fd = open("kfd", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, "x", 1) == 1, "a file of the program named kfd");
    EQUAL(fstat(fd, &s), 0);
    CHECK(S_ISREG(s.st_mode) && (s.st_mode & 0777) == 0600, "%o", s.st_mode);
    EQUAL(ioctl(fd, GET_VERSION, text), -1);
    EQUAL(errno, ENOTTY);
    EQUAL(unlink("kfd"), 0);
    const char* volatile nowhere = NULL;
    EQUAL(open(nowhere, O_RDONLY), -1);
    EQUAL(errno, EFAULT);
    char longer[2 * PATH_MAX];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    memcpy(longer, "/dev/dri/", 9);
    EQUAL(open(longer, O_RDONLY), -1);
    EQUAL(errno, ENAMETOOLONG);
}
