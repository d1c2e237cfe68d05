// Children that are forked while another thread of their parent opens /dev/kfd for the first time: each opens it as well, and
// none waits for a thread that it does not have. Held against Linux, where an open waits for nobody.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 400
#define ROUNDS 6

static volatile int go, done;

static void *opener(void *unused) {
    while (!go)
        ;
    open("/dev/kfd", O_RDWR);
    done = 1;
    return unused;
}

// One first opening, in a process of its own; whether all children ended well.
static int round_is_good(void) {
    pthread_t thread;
    pid_t children[MOST];
    int count = 0, hung = 0, bad = 0;
    pthread_create(&thread, NULL, opener, NULL);
    go = 1;
    while (!done && count < MOST) {
        pid_t child = fork();
        if (child == 0) {
            alarm(30);
            _exit(open("/dev/kfd", O_RDWR) < 0);
        }
        if (child > 0) children[count++] = child;
        usleep(150);
    }
    pthread_join(thread, NULL);
    for (int i = 0; i < count; i++) {
        int status = -1;
        waitpid(children[i], &status, 0);
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
            hung++;
        else if (status != 0)
            bad++;
    }
    if (hung || bad) printf("DIFF of %d children %d hung and %d ended badly\n", count, hung, bad);
    return !hung && !bad;
}

int main(void) {
    int good = 0;
    for (int i = 0; i < ROUNDS; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            int is_good = round_is_good();
            fflush(stdout);
            _exit(!is_good);
        }
        int status = -1;
        waitpid(child, &status, 0);
        good += status == 0;
    }
    printf("%d of %d rounds -> %s\n", good, ROUNDS, good == ROUNDS ? "PASS" : "FAIL");
    return good != ROUNDS;
}
