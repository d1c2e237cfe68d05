// Sandboxes: a filter that forbids userfaultfd, and programs built with a sanitizer.
#include "process.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void forbid(uint32_t number) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "%s", strerror(errno));
}

// Runs a case of a program beside this one, without userfaultfd.
static void without_userfaultfd(const char* command) {
    forbid(SYS_userfaultfd);
    CHECK(syscall(SYS_userfaultfd, 0) == -1 && errno == EPERM, "the filter does nothing");
    EQUAL(shell(command), 0);
}

CASE(sandbox_driver_without_userfaultfd) {
    forbid(SYS_userfaultfd);
    open_driver();
}

CASE(sandbox_rocminfo_without_userfaultfd) {
    without_userfaultfd("rocminfo | grep -q " GPU_NAME);
}

static char* compile(const char* flags, const char* source) {
    static char program[] = "/tmp/probeXXXXXX";
    char command[4096];
    close(mkstemp(program));
    snprintf(command, sizeof command, "printf '%%s' '%s' | %s -x c - -o %s", source, flags, program);
    CHECK(shell(command) == 0, "%s does not compile", flags);
    return program;
}

#define OPENS_THE_DRIVER                                                                                  \
    "#include <fcntl.h>\n#include <stdlib.h>\n#include <string.h>\n#include <sys/ioctl.h>\n"              \
    "int main(int count, char** arguments) {\n"                                                           \
    "  unsigned version[2]; int fd = open(\"/dev/kfd\", O_RDWR);\n"                                       \
    "  if (fd < 0 || ioctl(fd, 0x80084b01, version) || version[0] != 1) return 1;\n"                      \
    "  volatile char* block = malloc(100); block[count * 99] = 1; free((void*)block);\n"                  \
    "  if (count > 1) block[0] = 2;\n  return 0; }\n"

static void sanitized(const char* compiler) {
    char* program = compile(compiler, OPENS_THE_DRIVER);
    char command[4096];
    snprintf(command, sizeof command, "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 %s", program);
    EQUAL(shell(command), 0);
    // It finds what it is for.
    snprintf(command, sizeof command, "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 %s x 2>&1 | grep -q AddressSanitizer",
             program);
    EQUAL(shell(command), 0);
    unlink(program);
}

CASE(sanitizer_of_clang) { sanitized("clang -fsanitize=address"); }
CASE(sanitizer_of_clang_shared) { sanitized("clang -fsanitize=address -shared-libasan -Wl,-rpath,$(dirname $(clang -print-file-name=libclang_rt.asan-x86_64.so))"); }
CASE(sanitizer_of_gcc) { sanitized("gcc -fsanitize=address"); }
