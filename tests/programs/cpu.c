// Runs `program` on the processor: its input on stdin, its output, zeroed first, on stdout.
// Arguments: groups of 64 work-items, bytes of input, bytes of output.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { GROUP = 64 };

extern void program(unsigned *out, const unsigned *in);

static pthread_barrier_t group_barrier;
static unsigned groups;
static unsigned *input, *output;
static _Thread_local unsigned local_id, group_id;

unsigned belfry_local_id(void) { return local_id; }
unsigned belfry_group_id(void) { return group_id; }
void belfry_barrier(void) { pthread_barrier_wait(&group_barrier); }

static void *work_item(void *number) {
  local_id = (unsigned)(size_t)number;
  for (group_id = 0; group_id < groups; group_id++) {
    // Groups run one after another: they share what is __local.
    belfry_barrier();
    program(output, input);
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  groups = (unsigned)strtoul(argv[1], 0, 10);
  size_t in_size = strtoul(argv[2], 0, 10), out_size = strtoul(argv[3], 0, 10);
  input = malloc(in_size);
  output = calloc(1, out_size);
  if (!input || !output || fread(input, 1, in_size, stdin) != in_size) return 3;
  if (pthread_barrier_init(&group_barrier, 0, GROUP)) return 4;
  pthread_t threads[GROUP];
  for (size_t number = 0; number < GROUP; number++)
    if (pthread_create(&threads[number], 0, work_item, (void *)number)) return 5;
  for (int number = 0; number < GROUP; number++) pthread_join(threads[number], 0);
  return fwrite(output, 1, out_size, stdout) == out_size ? 0 : 6;
}
