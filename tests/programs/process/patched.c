// Programs that put functions of their own in place of the C library's, to hear of memory that comes and goes: a jump over the
// beginning of each, as UCX ("bistro") and Open MPI ("patcher") write it. The functions make their calls by syscall().
#include "process.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <sys/syscall.h>

static const char* wanted;
static void* found;

static int find_in(struct dl_phdr_info* library, size_t size, void* unused) {
    (void)size, (void)unused;
    if (!strstr(library->dlpi_name, "libc.so")) return 0;
    const ElfW(Sym)* symbols = NULL;
    const char* strings = NULL;
    const uint32_t* hash = NULL;
    for (int i = 0; i < library->dlpi_phnum; i++) {
        if (library->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
        for (const ElfW(Dyn)* entry = (void*)(library->dlpi_addr + library->dlpi_phdr[i].p_vaddr); entry->d_tag; entry++) {
            if (entry->d_tag == DT_SYMTAB) symbols = (void*)entry->d_un.d_ptr;
            if (entry->d_tag == DT_STRTAB) strings = (void*)entry->d_un.d_ptr;
            if (entry->d_tag == DT_GNU_HASH) hash = (void*)entry->d_un.d_ptr;
        }
    }
    if (!symbols || !strings || !hash) return 0;
    // DT_GNU_HASH: buckets, first symbol, words of the filter; the filter, the buckets, the chains.
    const uint32_t* buckets = hash + 4 + hash[2] * 2;
    const uint32_t* chains = buckets + hash[0];
    for (uint32_t i = 0; i < hash[0]; i++) {
        for (uint32_t at = buckets[i]; at; at++) {
            if (strcmp(strings + symbols[at].st_name, wanted) == 0) {
                found = (void*)(library->dlpi_addr + symbols[at].st_value);
                return 1;
            }
            if (chains[at - hash[1]] & 1) break;
        }
    }
    return 0;
}

// The C library's own function, whatever is loaded before it.
static void* of_the_c_library(const char* name) {
    wanted = name, found = NULL;
    dl_iterate_phdr(find_in, NULL);
    CHECK(found, "the C library has no %s", name);
    return found;
}

static void patch(const char* name, void* function) {
    unsigned char jump[13] = {0x49, 0xbb};  // movabs $function, %r11; jmp *%r11
    memcpy(jump + 2, &function, sizeof function);
    memcpy(jump + 10, "\x41\xff\xe3", 3);
    unsigned char* place = of_the_c_library(name);
    uintptr_t page = (uintptr_t)place & ~4095ul;
    CHECK(syscall(SYS_mprotect, page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) == 0, "%s", strerror(errno));
    memcpy(place, jump, sizeof jump);
    syscall(SYS_mprotect, page, 8192, PROT_READ | PROT_EXEC);
}

// Of each thread: those of the driver, and the C library for them, may call at any time.
static __thread volatile int calls;

static void* own_mmap(void* at, size_t size, int access, int flags, int fd, off_t offset) {
    calls++;
    return (void*)syscall(SYS_mmap, at, size, access, flags, fd, offset);
}
static int own_munmap(void* at, size_t size) {
    calls++;
    return (int)syscall(SYS_munmap, at, size);
}
static void* own_mremap(void* at, size_t size, size_t new_size, int flags, void* to) {
    calls++;
    return (void*)syscall(SYS_mremap, at, size, new_size, flags, to);
}
static int own_madvise(void* at, size_t size, int advice) {
    calls++;
    return (int)syscall(SYS_madvise, at, size, advice);
}
static int own_mprotect(void* at, size_t size, int access) {
    calls++;
    return (int)syscall(SYS_mprotect, at, size, access);
}

static void patch_memory(void) {
    patch("mmap", own_mmap);
    patch("munmap", own_munmap);
    patch("mremap", own_mremap);
    patch("madvise", own_madvise);
    patch("mprotect", own_mprotect);
}

static void* nothing(void* argument) { return argument; }

// What a program does with memory, and that the functions in between hear of it.
static void use_memory(void) {
    int before = calls;
    size_t size = 1 << 20;
    char* memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED, "%s", strerror(errno));
    memory[0] = 7;
    memory = mremap(memory, size, 2 * size, MREMAP_MAYMOVE);
    CHECK(memory != MAP_FAILED && memory[0] == 7, "%s", strerror(errno));
    EQUAL(madvise(memory, size, MADV_DONTNEED), 0);
    EQUAL(memory[0], 0);
    EQUAL(mprotect(memory, size, PROT_READ), 0);
    CHECK(mmap(memory, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory, "%s", strerror(errno));
    EQUAL(munmap(memory, 2 * size), 0);
    EQUAL(calls - before, 6);
    // An errno comes through all of them.
    EQUAL(munmap((void*)1, 4096), -1);
    EQUAL(errno, EINVAL);
    // The C library's own calls are among those that are heard of.
    before = calls;
    void* block = malloc(64 << 20);
    CHECK(block, "malloc");
    free(block);
    CHECK(calls > before, "malloc and free call neither mmap nor munmap");
    pthread_t thread;
    EQUAL(pthread_create(&thread, NULL, nothing, NULL), 0);
    EQUAL(pthread_join(thread, NULL), 0);
}

CASE(memory_functions_that_the_program_has_patched) {
    patch_memory();
    use_memory();
    int fd = open_driver();
    use_memory();
    close(fd);
    if (fork() == 0) {
        use_memory();
        open_driver();
        use_memory();
        exit(0);
    }
    int status = -1;
    CHECK(wait(&status) > 0 && status == 0, "status %#x", status);
}

CASE(memory_functions_that_are_patched_while_the_driver_runs) {
    int fd = open_driver();
    patch_memory();
    use_memory();
    EQUAL(driver_answers(fd), 0);
}

static volatile int file_calls;

static int own_open(const char* path, int flags, int mode) {
    file_calls++;
    return (int)syscall(SYS_open, path, flags, mode);
}
static int own_openat(int directory, const char* path, int flags, int mode) {
    file_calls++;
    return (int)syscall(SYS_openat, directory, path, flags, mode);
}
static int own_close(int fd) {
    file_calls++;
    return (int)syscall(SYS_close, fd);
}
static int own_ioctl(int fd, unsigned long request, void* argument) {
    file_calls++;
    return (int)syscall(SYS_ioctl, fd, request, argument);
}
static ssize_t own_readlink(const char* path, char* to, size_t size) {
    file_calls++;
    return syscall(SYS_readlink, path, to, size);
}

CASE(functions_of_files_that_the_program_has_patched) {
    patch("open", own_open);
    patch("openat", own_openat);
    patch("close", own_close);
    patch("ioctl", own_ioctl);
    patch("readlink", own_readlink);
    int fd = open_driver();
    CHECK(file_calls > 0, "nobody has called a patched function");
    int other = openat(AT_FDCWD, GPU_ID, O_RDONLY);
    CHECK(reads_gpu_id(other), "%s", strerror(errno));
    char link[256] = "";
    CHECK(readlink("/sys/class/kfd/kfd", link, sizeof link - 1) > 0, "%s", strerror(errno));
    CHECK(strstr(link, "devices/virtual/kfd/kfd"), "%s", link);
    EQUAL(close(other), 0);
    EQUAL(close(fd), 0);
    EQUAL(close(fd), -1);
    EQUAL(errno, EBADF);
}
