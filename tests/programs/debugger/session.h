// A debugger of GPU programs over AMD's ROCdbgapi and ptrace: one program at a time.
#ifndef SESSION_H
#define SESSION_H
#include <amd-dbgapi/amd-dbgapi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

/* Ends the case as failed, with the reason. */
#define FAIL(...) do { printf("    %s:%d: ", __FILE__, __LINE__); printf(__VA_ARGS__); printf("\n"); fflush(stdout); fail(); } while (0)
#define EXPECT(condition) do { if (!(condition)) FAIL("not so: %s", #condition); } while (0)
#define CHECK(call) do { amd_dbgapi_status_t s_ = (call); if (s_) FAIL("%s: status %d", #call, s_); } while (0)

/* What a debugger waits for. */
enum happened { WAVE_STOPPED, RUNTIME_CHANGED, CODE_LOADED, QUEUE_FAILED, SAID, ENDED };

/* A breakpoint in code of the GPU. */
struct stop { uint64_t at, adjust; uint8_t original[4]; };

/* What a session knows. */
extern amd_dbgapi_process_id_t process;
extern amd_dbgapi_runtime_state_t runtime;
extern pid_t child;
extern int child_status;

void fail(void) __attribute__((noreturn));

/* Starts a program under the debugger; it goes on in next(). */
void start(const char *program, const char *name);
/* Starts a program without a debugger, and waits until it has launched its kernels. */
void start_free(const char *program, const char *name);
/* Lets a program go that waits for this. */
void let_go(void);
/* Waits for the end of a program that is not debugged, which has to be 0. */
void finish_free(void);
/* Takes the breakpoints of a debugger that was killed out of the program. */
void mend_program(void);
/* Attaches to a program that runs already. */
void attach(pid_t pid);
/* Detaches from the program, whose threads go on. */
void detach(void);
/* Waits for the next thing to happen; `wave` is the stopped one. */
enum happened next(amd_dbgapi_wave_id_t *wave);
/* Waits for a wave to stop and checks why. */
amd_dbgapi_wave_id_t next_wave(amd_dbgapi_wave_stop_reasons_t reason);
/* Waits until the program has ended; no wave may stop. Its status as of waitpid. */
int finish(void);
/* Waits until the program has ended with 0. */
void finish_well(void);

void resume(amd_dbgapi_wave_id_t wave);
/* Runs one instruction of the wave. */
void step(amd_dbgapi_wave_id_t wave);
uint64_t program_counter(amd_dbgapi_wave_id_t wave);
amd_dbgapi_queue_id_t queue_of(amd_dbgapi_wave_id_t wave);
uint32_t workgroup_of(amd_dbgapi_wave_id_t wave);
/* All waves; to be freed. */
size_t waves(amd_dbgapi_wave_id_t **list);
/* A register by its name, and how many registers there are. */
amd_dbgapi_register_id_t register_of(amd_dbgapi_wave_id_t wave, const char *name, size_t *count);

/* The address of a name in the symbol tables of the code objects that are loaded; 0 where there is none yet. */
uint64_t symbol(const char *name);
/* Runs the program until the name is loaded. */
uint64_t wait_symbol(const char *name);
/* Writes a breakpoint to the GPU's code, and takes it away. */
struct stop break_at(uint64_t at);
void unbreak(const struct stop *stop);
/* Waits for a wave to stop there, and puts it back to the instruction that the breakpoint replaces. */
amd_dbgapi_wave_id_t next_breakpoint(const struct stop *stop);
void read_memory(uint64_t at, void *bytes, size_t size);
void write_memory(uint64_t at, const void *bytes, size_t size);
#endif
