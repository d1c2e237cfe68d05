// Children that are forked while another thread of their parent opens the GPU: none waits for a thread that it does not have.
#include "process.h"

#include <pthread.h>
#include <sched.h>

#define ROUNDS 12
#define MOST 256

static volatile int go, done;

static void* opener(void* unused) {
    while (!go) sched_yield();
    int fd = open(KFD, O_RDWR);
    done = 1;
    (void)unused;
    return fd < 0 ? (void*)1 : NULL;
}

// One start of the GPU, in a process of its own: children that are made meanwhile use the GPU as well.
static void race(void) {
    pthread_t thread;
    pid_t children[MOST];
    int count = 0;
    EQUAL(pthread_create(&thread, NULL, opener, NULL), 0);
    go = 1;
    while (!done && count < MOST) {
        pid_t child = fork();
        if (child == 0) {
            // Far longer than a start takes; one that waits for a thread that is not there ends by the signal.
            alarm(20);
            int fd = open(KFD, O_RDWR);
            _exit(fd < 0 ? 2 : driver_answers(fd) != 0 ? 3 : 0);
        }
        CHECK(child > 0, "%s", strerror(errno));
        children[count++] = child;
        usleep(150);
    }
    void* failed = NULL;
    pthread_join(thread, &failed);
    CHECK(!failed, "the parent has no GPU");
    for (int i = 0; i < count; i++) {
        int status = -1;
        EQUAL(waitpid(children[i], &status, 0), children[i]);
        CHECK(status == 0, "child %d of %d: status %#x", i, count, status);
    }
}

// Children that the C library does not know of (_Fork, clone) have no say here: its own locks are as they were, which the start
// of a thread needs.
CASE(fork_while_the_gpu_starts) {
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child = fork();
        if (child == 0) {
            race();
            exit(0);
        }
        int status = -1;
        EQUAL(waitpid(child, &status, 0), child);
        CHECK(status == 0, "round %d: status %#x", round, status);
    }
}

static void* looker(void* unused) {
    while (!go) sched_yield();
    struct stat stat_of_it;
    stat(GPU_ID, &stat_of_it);
    done = 1;
    return unused;
}

// The same for what is read of the GPU's files alone, which begins with the first path.
CASE(fork_while_the_first_path_is_looked_up) {
    for (int round = 0; round < 100; round++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            EQUAL(pthread_create(&thread, NULL, looker, NULL), 0);
            go = 1;
            pid_t children[MOST];
            int count = 0;
            while (!done && count < MOST) {
                pid_t child = fork();
                if (child == 0) {
                    alarm(20);
                    int fd = open(GPU_ID, O_RDONLY);
                    _exit(reads_gpu_id(fd) ? 0 : 1);
                }
                children[count++] = child;
            }
            pthread_join(thread, NULL);
            for (int i = 0; i < count; i++) {
                int status = -1;
                EQUAL(waitpid(children[i], &status, 0), children[i]);
                CHECK(status == 0, "status %#x", status);
            }
            exit(0);
        }
        int status = -1;
        EQUAL(waitpid(child, &status, 0), child);
        CHECK(status == 0, "round %d: status %#x", round, status);
    }
}
