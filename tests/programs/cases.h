// What every program of the suite shares, in C and in C++: named cases, and checks that say what differed.
//
// `CASE(name) { ... }` defines a case. `PROGRAM name` runs it and ends with 0, or with 1 and a line on stderr that begins
// with `FAILED name`. `PROGRAM --list` prints the names; the harness finds them by the lines that begin with `CASE(`.
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void (*case_function)(void);

static struct {
    const char* name;
    case_function run;
} all_cases[64];
static unsigned case_count;
static const char* running_case = "";

__attribute__((unused)) static void add_case(const char* name, case_function run) {
    if (case_count == sizeof all_cases / sizeof *all_cases) {
        fprintf(stderr, "too many cases in one program\n");
        abort();
    }
    all_cases[case_count].name = name;
    all_cases[case_count++].run = run;
}

#define CASE(name)                                                           \
    static void case_##name(void);                                           \
    __attribute__((constructor)) static void register_##name(void) {         \
        add_case(#name, case_##name);                                        \
    }                                                                        \
    static void case_##name(void)

// Ends the process at once: what a runtime does at exit after a failure is not what is looked at.
__attribute__((format(printf, 3, 4), noreturn, unused)) static void fail(const char* file, int line,
                                                                          const char* format, ...) {
    const char* slash = strrchr(file, '/');
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fflush(stdout);
    fprintf(stderr, "FAILED %s: %s:%d: %s\n", running_case, slash ? slash + 1 : file, line, text);
    fflush(stderr);
    _exit(1);
}

#define FAIL(...) fail(__FILE__, __LINE__, __VA_ARGS__)

// A condition, and what there was instead, as for printf.
#define CHECK(condition, ...)                              \
    do {                                                   \
        if (!(condition)) {                                \
            fprintf(stderr, "%s does not hold\n", #condition); \
            FAIL(__VA_ARGS__);                             \
        }                                                  \
    } while (0)

// Compares `count` elements of `size` bytes (at most 8) bit for bit.
__attribute__((unused)) static void same_elements(const char* file, int line, const char* what, const void* got,
                                                  const void* want, size_t count, size_t size) {
    if (memcmp(got, want, count * size) == 0) return;
    size_t differ = 0, used = 0;
    char list[512] = "";
    for (size_t i = 0; i < count; i++) {
        uint64_t is = 0, should = 0;
        memcpy(&is, (const char*)got + i * size, size);
        memcpy(&should, (const char*)want + i * size, size);
        if (is == should) continue;
        if (differ++ < 4 && used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, " [%zu] is %#llx, not %#llx;", i,
                                     (unsigned long long)is, (unsigned long long)should);
    }
    fail(file, line, "%s: %zu of %zu differ:%s", what, differ, count, list);
}

#define SAME(got, want, count)                                                                        \
    do {                                                                                              \
        _Static_assert(sizeof *(got) == sizeof *(want) && sizeof *(got) <= 8, "elements of one size"); \
        same_elements(__FILE__, __LINE__, #got, got, want, count, sizeof *(got));                      \
    } while (0)

#define EQUAL(got, want)                                                     \
    do {                                                                     \
        long long got_ = (long long)(got), want_ = (long long)(want);        \
        if (got_ != want_) FAIL("%s is %lld, not %lld", #got, got_, want_);  \
    } while (0)

// Words without a pattern; the same for the same seed.
__attribute__((unused)) static void fill_noise(uint32_t* words, size_t count, uint32_t seed) {
    uint64_t state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    for (size_t i = 0; i < count; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        words[i] = (uint32_t)(state >> 32);
    }
}

// What a file descriptor of this process gets while `body` runs, as a string to be freed.
__attribute__((unused)) static char* capture(FILE* stream, void (*body)(void)) {
    fflush(stream);
    FILE* file = tmpfile();
    int kept = dup(fileno(stream));
    if (!file || kept < 0 || dup2(fileno(file), fileno(stream)) < 0) FAIL("output cannot be redirected");
    body();
    fflush(stream);
    dup2(kept, fileno(stream));
    close(kept);
    long size = lseek(fileno(file), 0, SEEK_END);
    char* text = (char*)calloc(1, (size_t)size + 1);
    if (pread(fileno(file), text, (size_t)size, 0) != size) FAIL("captured output cannot be read");
    fclose(file);
    return text;
}

// Runs `body` in a child that ends with 0 if `body` returns; gives the status of waitpid and what the child wrote to stderr.
__attribute__((unused)) static int in_child(void (*body)(void), char* said, size_t size) {
    int ends[2];
    if (pipe(ends) != 0) FAIL("pipe");
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) FAIL("fork");
    if (child == 0) {
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        body();
        fflush(stdout);
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    char rest[256];
    for (;;) {
        bool room = used + 1 < size;
        ssize_t got = read(ends[0], room ? said + used : rest, room ? size - 1 - used : sizeof rest);
        if (got <= 0) break;
        if (room) used += (size_t)got;
    }
    if (size) said[used] = 0;
    close(ends[0]);
    int status = 0;
    if (waitpid(child, &status, 0) != child) FAIL("waitpid");
    return status;
}

int main(int count, char** arguments) {
    if (count == 2 && strcmp(arguments[1], "--list") == 0) {
        for (unsigned i = 0; i < case_count; i++) puts(all_cases[i].name);
        return 0;
    }
    for (unsigned i = 0; count == 2 && i < case_count; i++) {
        if (strcmp(arguments[1], all_cases[i].name) == 0) {
            running_case = all_cases[i].name;
            all_cases[i].run();
            return 0;
        }
    }
    fprintf(stderr, "usage: %s CASE | --list\n", arguments[0]);
    return 2;
}
