// Children of every kind: what they see of the GPU, with whatever environment, before and after their parent uses it.
#include "process.h"

#include <sched.h>
#include <spawn.h>
#include <sys/syscall.h>

extern char** environ;

static char self[4096];

// This program, with the case below that only a child runs.
static const char* find_self(void) {
    ssize_t count = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(count > 0, "readlink");
    self[count] = 0;
    return self;
}

// A case for children: the GPU is there.
CASE(child_uses_driver) {
    close(open_driver());
}

#define USES "child_uses_driver"

static void ends_well(const char* what, pid_t child) {
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child, "%s: %s", what, strerror(errno));
    CHECK(status == 0, "%s: status %#x", what, status);
}

CASE(child_forked_before_use) {
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            close(open_driver());
            exit(0);
        }
        ends_well("fork", child);
    }
    close(open_driver());
}

CASE(child_forked_after_use) {
    int fd = open_driver();
    void* memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) {
        // What was inherited is the parent's.
        EQUAL(driver_answers(fd), EBADF);
        munmap(memory, 1 << 20);
        int own = open_driver();
        EQUAL(driver_answers(own), 0);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            EQUAL(driver_answers(own), EBADF);
            close(open_driver());
            _exit(0);
        }
        ends_well("fork of a fork", grandchild);
        EQUAL(driver_answers(own), 0);
        exit(0);
    }
    EQUAL(driver_answers(fd), 0);
    ends_well("fork", child);
    EQUAL(driver_answers(fd), 0);
}

// Children that no function registered with pthread_atfork hears of.
CASE(child_of_raw_fork_after_use) {
    int fd = open_driver();
    for (int way = 0; way < 3; way++) {
        pid_t child = way == 0 ? _Fork() : way == 1 ? (pid_t)syscall(SYS_fork) : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (child == 0) {
            EQUAL(driver_answers(fd), EBADF);
            munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
            close(open_driver());
            _exit(0);
        }
        ends_well(way == 0 ? "_Fork" : way == 1 ? "SYS_fork" : "SYS_clone", child);
    }
    EQUAL(driver_answers(fd), 0);
}

// A child that shares this process's memory until it becomes another program.
CASE(child_of_vfork_disturbs_nothing) {
    int fd = open_driver();
    find_self();
    for (int i = 0; i < 3; i++) {
        pid_t child = vfork();
        if (child == 0) {
            for (int to = 3; to < 1100; to++)
                if (to != fd) dup2(2, to);
            closefrom(3);
            if (i == 0) _exit(0);
            execl(self, self, USES, NULL);
            _exit(99);
        }
        ends_well("vfork", child);
    }
    EQUAL(driver_answers(fd), 0);
    int own = 0;
    char path[64], link[256];
    for (int number = 3; number < 1100; number++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", number);
        ssize_t count = readlink(path, link, sizeof link - 1);
        if (count > 0) link[count] = 0, own += strstr(link, "userfaultfd") != NULL;
    }
    // Whatever the child did to its copies, this process's descriptors are where they were.
    CHECK(own == 0 || own == 2, "%d userfaultfds", own);
    EQUAL(driver_answers(open_driver()), 0);
}

CASE(child_with_every_function) {
    const char* path = find_self();
    char* arguments[] = {self, USES, NULL};
    char* nothing[] = {NULL};
    char* one[] = {"A=b", NULL};
    for (int used = 0; used < 2; used++) {
        for (int way = 0; way < 12; way++) {
            pid_t child = fork();
            if (child == 0) {
                int directory = open("/", O_PATH);
                switch (way) {
                case 0: execv(path, arguments); break;
                case 1: execve(path, arguments, nothing); break;
                case 2: execve(path, arguments, NULL); break;
                case 3: execvp(path, arguments); break;
                case 4: execvpe(path, arguments, one); break;
                case 5: execl(path, path, USES, NULL); break;
                case 6: execle(path, path, USES, NULL, nothing); break;
                case 7: execlp(path, path, USES, NULL); break;
                case 8: fexecve(open(path, O_RDONLY), arguments, nothing); break;
                case 9: execveat(directory, path + 1, arguments, nothing, 0); break;
                case 10: syscall(SYS_execve, path, arguments, nothing); break;
                case 11: environ = nothing; execl(path, path, USES, NULL); break;
                }
                fprintf(stderr, "way %d: %s\n", way, strerror(errno));
                _exit(99);
            }
            char what[32];
            snprintf(what, sizeof what, "way %d", way);
            ends_well(what, child);
        }
        for (int way = 0; way < 4; way++) {
            pid_t child = 0;
            char** environment = way & 1 ? nothing : environ;
            EQUAL((way < 2 ? posix_spawn : posix_spawnp)(&child, path, NULL, NULL, arguments, environment), 0);
            ends_well("posix_spawn", child);
        }
        close(open_driver());
    }
}

// More arguments than there are registers for them.
CASE(child_with_many_arguments) {
    char said[256];
    int ends[2];
    for (int way = 0; way < 3; way++) {
        CHECK(pipe(ends) == 0, "pipe");
        pid_t child = fork();
        if (child == 0) {
            dup2(ends[1], 1);
            char* environment[] = {"WORD=twelve", NULL};
            if (way == 0)
                execl("/bin/echo", "echo", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", NULL);
            if (way == 1)
                execlp("echo", "echo", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", NULL);
            execle("/bin/sh", "sh", "-c", "echo $1 $2 $3 $4 $5 $6 $7 $8 $9 10 11 12; test $WORD = twelve", "sh", "1", "2",
                   "3", "4", "5", "6", "7", "8", "9", NULL, environment);
            _exit(99);
        }
        close(ends[1]);
        ssize_t count = read(ends[0], said, sizeof said - 1);
        said[count > 0 ? count : 0] = 0;
        close(ends[0]);
        ends_well("exec", child);
        CHECK(strcmp(said, "1 2 3 4 5 6 7 8 9 10 11 12\n") == 0, "way %d: %s", way, said);
    }
}

static void through_shells(void) {
    char command[8192];
    snprintf(command, sizeof command, "%s " USES, self);
    EQUAL(shell(command), 0);
    FILE* stream = popen(command, "r");
    CHECK(stream, "popen");
    EQUAL(pclose(stream), 0);
}

CASE(child_of_system_and_popen) {
    find_self();
    through_shells();
    close(open_driver());
    through_shells();
    EQUAL(clearenv(), 0);
    through_shells();
    char* nothing[] = {NULL};
    environ = nothing;
    through_shells();
    unsetenv("LD_PRELOAD");
    unsetenv("BELFRY_EXEC");
    through_shells();
}

CASE(child_of_a_shell_with_an_empty_environment) {
    char command[8192];
    snprintf(command, sizeof command, "env -i %s " USES, find_self());
    EQUAL(shell(command), 0);
    snprintf(command, sizeof command, "env -u LD_PRELOAD %s " USES, self);
    EQUAL(shell(command), 0);
    snprintf(command, sizeof command, "unset LD_PRELOAD BELFRY_EXEC; %s " USES, self);
    EQUAL(shell(command), 0);
    snprintf(command, sizeof command, "LD_PRELOAD= %s " USES, self);
    EQUAL(shell(command), 0);
    snprintf(command, sizeof command, "find / -maxdepth 0 -exec %s " USES " \\;", self);
    EQUAL(shell(command), 0);
    snprintf(command, sizeof command, "echo " USES " | xargs -n 1 %s", self);
    EQUAL(shell(command), 0);
    snprintf(command, sizeof command, "timeout 50 nice %s " USES, self);
    EQUAL(shell(command), 0);
}

CASE(child_that_is_a_script) {
    char path[] = "/tmp/scriptXXXXXX";
    int fd = mkstemp(path);
    dprintf(fd, "#!/bin/sh\nexec %s " USES "\n", find_self());
    fchmod(fd, 0755);
    close(fd);
    pid_t child = fork();
    if (child == 0) {
        char *arguments[] = {path, NULL}, *nothing[] = {NULL};
        execve(path, arguments, nothing);
        _exit(99);
    }
    ends_well("script", child);
    unlink(path);
}

// The environment a child sees is the one it was given, but for what it needs.
CASE(child_sees_its_environment) {
    char* environment[] = {"LD_PRELOAD=/nowhere/libnone.so", "A=b", NULL};
    char* arguments[] = {"sh", "-c", "test $A = b && echo $LD_PRELOAD | grep -q ':/nowhere/libnone.so$'", NULL};
    pid_t child = fork();
    if (child == 0) {
        freopen("/dev/null", "w", stderr);
        execve("/bin/sh", arguments, environment);
        _exit(99);
    }
    ends_well("sh", child);
}

// What a child on a stack of its own is to start.
struct start {
    char* const* arguments;
    char* const* environment;
};

static int start_from_here(void* what) {
    struct start* start = what;
    if (chdir("/") == 0) execve(self, start->arguments, start->environment);
    return 98;
}

// Test frameworks start programs from children of `clone` with a stack of two pages.
CASE(child_is_started_from_a_stack_of_two_pages) {
    enum { PAGE = 4096, MANY = 600 };
    static char text[MANY][16];
    char* many[MANY + 1] = {NULL};
    for (int i = 0; i < MANY; i++) {
        snprintf(text[i], sizeof text[i], "V%d=%d", i, i);
        many[i] = text[i];
    }
    char* arguments[] = {self, USES, NULL};
    struct start starts[] = {{arguments, environ}, {arguments, many}};
    find_self();
    // What it takes beyond its stack is a fault.
    char* area = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED && mprotect(area + PAGE, 2 * PAGE, PROT_READ | PROT_WRITE) == 0, "mmap");
    for (int used = 0; used < 2; used++) {
        for (int i = 0; i < 2; i++) {
            ends_well("clone", clone(start_from_here, area + 3 * PAGE, SIGCHLD, &starts[i]));
        }
        close(open_driver());
    }
}

static void start_static(void) {
    pid_t child = 0;
    char *arguments[] = {"ldconfig", "--version", NULL};
    posix_spawnp(&child, "ldconfig", NULL, NULL, arguments, environ);
    waitpid(child, NULL, 0);
    execl("/sbin/ldconfig", "ldconfig", "--version", NULL);
}

static void start_go(void) {
    execl("/tmp/made-like-go", "made-like-go", NULL);
}

// Go's programs are known by a note; what they do themselves is not seen.
CASE(child_that_makes_its_own_system_calls_is_noticed) {
    char said[8192];
    // The C library's start-up code has a note of its own in front.
    FILE* compiler = popen("cc -x c - -o /tmp/made-like-go", "w");
    fputs("int main(void) { return 0; }\n"
          "__asm__(\".section .note.go.buildid, \\\"a\\\", @note\\n"
          ".long 4, 4, 4\\n.ascii \\\"Go\\\\0\\\\0\\\"\\n.long 1\\n.text\\n\");\n", compiler);
    EQUAL(pclose(compiler), 0);
    in_child(start_go, said, sizeof said);
    unlink("/tmp/made-like-go");
    CHECK(strstr(said, "made-like-go makes its system calls itself"), "%s", said);
}

static void start_dynamic(void) {
    execlp("true", "true", NULL);
}

// Programs that do not load the library are named, whether found in PATH or not; others are not.
CASE(child_that_is_static_is_noticed) {
    char said[8192];
    setenv("PATH", "/usr/bin:/bin:/usr/sbin:/sbin", 1);
    in_child(start_static, said, sizeof said);
    const char* first = strstr(said, "ldconfig is statically linked");
    CHECK(first, "%s", said);
    CHECK(strstr(first + 1, "ldconfig is statically linked"), "once only: %s", said);
    in_child(start_dynamic, said, sizeof said);
    CHECK(strcmp(said, "") == 0, "%s", said);
}
