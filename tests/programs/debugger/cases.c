// What a debugger's user does, case by case: `cases PROGRAM [NAME ...]` with the program that is debugged.
#define _GNU_SOURCE
#include "session.h"
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LANES = 32, GROUPS = 2, ADDED = 100, SECONDS = 600 };

static const char *program;

static void wave_that_traps_is_stepped(void)
{
	size_t count;
	start(program, "trapping");
	amd_dbgapi_wave_id_t wave = next_wave(AMD_DBGAPI_WAVE_STOP_REASON_DEBUG_TRAP);
	EXPECT(workgroup_of(wave) == 0);
	register_of(wave, "v0", &count);
	EXPECT(count > 100);
	for (int i = 0; i < 3; i++) {
		uint64_t before = program_counter(wave);
		step(wave);
		EXPECT(program_counter(wave) > before && program_counter(wave) <= before + 20);
	}
	EXPECT(runtime == AMD_DBGAPI_RUNTIME_STATE_LOADED_SUCCESS);
	resume(wave);
	finish_well();
	EXPECT(runtime == AMD_DBGAPI_RUNTIME_STATE_UNLOADED);
}

static void breakpoint_at_a_kernel_is_hit_by_each_wave_of_each_launch(void)
{
	start(program, "sums");
	uint64_t at = wait_symbol("sums");
	struct stop stop = break_at(at);
	for (int launch = 0; launch < 2; launch++) {
		amd_dbgapi_wave_id_t wave[GROUPS];
		uint32_t groups = 0;
		for (int i = 0; i < GROUPS; i++) {
			wave[i] = next_breakpoint(&stop);
			groups |= 1u << workgroup_of(wave[i]);
		}
		EXPECT(groups == 3);
		unbreak(&stop);
		for (int i = 0; i < GROUPS; i++) {
			step(wave[i]);
			EXPECT(program_counter(wave[i]) > at && program_counter(wave[i]) <= at + 20);
		}
		stop = break_at(at);
		for (int i = 0; i < GROUPS; i++)
			resume(wave[i]);
	}
	finish_well();
}

/* Stops both waves in the function whose first argument is in v0, and whose second is in v1. */
static struct stop stop_in_function(const char *name, amd_dbgapi_wave_id_t *wave)
{
	start(program, name);
	struct stop stop = break_at(wait_symbol("inner"));
	for (int i = 0; i < GROUPS; i++)
		wave[i] = next_breakpoint(&stop);
	return stop;
}

static void arguments_of_each_lane_are_printed(void)
{
	amd_dbgapi_wave_id_t wave[GROUPS];
	struct stop stop = stop_in_function("sums", wave);
	for (int i = 0; i < GROUPS; i++) {
		uint32_t value[LANES], factor[LANES];
		uint64_t exec;
		int first = workgroup_of(wave[i]) * LANES;
		CHECK(amd_dbgapi_wave_get_info(wave[i], AMD_DBGAPI_WAVE_INFO_EXEC_MASK, sizeof exec, &exec));
		EXPECT(exec == 0xffffffff);
		CHECK(amd_dbgapi_read_register(wave[i], register_of(wave[i], "v0", NULL), 0, sizeof value, value));
		CHECK(amd_dbgapi_read_register(wave[i], register_of(wave[i], "v1", NULL), 0, sizeof factor, factor));
		for (int lane = 0; lane < LANES; lane++)
			if (value[lane] != (uint32_t)((first + lane) * 3 + ADDED) || factor[lane] != 2)
				FAIL("lane %d of workgroup %d has value %u and factor %u", lane, first / LANES, value[lane], factor[lane]);
	}
	unbreak(&stop);
	for (int i = 0; i < GROUPS; i++)
		resume(wave[i]);
	finish_well();
}

static void changed_argument_of_a_lane_changes_its_result(void)
{
	amd_dbgapi_wave_id_t wave[GROUPS];
	struct stop stop = stop_in_function("changed", wave);
	unbreak(&stop);
	for (int i = 0; i < GROUPS; i++) {
		uint32_t value;
		amd_dbgapi_register_id_t v0 = register_of(wave[i], "v0", NULL);
		CHECK(amd_dbgapi_read_register(wave[i], v0, 5 * sizeof value, sizeof value, &value));
		value += 1000;
		CHECK(amd_dbgapi_write_register(wave[i], v0, 5 * sizeof value, sizeof value, &value));
		resume(wave[i]);
	}
	finish_well();
}

static void watchpoint_on_a_global_variable_stops_after_the_store(void)
{
	amd_dbgapi_watchpoint_id_t watchpoint;
	amd_dbgapi_watchpoint_list_t met;
	int before, after;
	start(program, "storing");
	uint64_t at = wait_symbol("watched");
	CHECK(amd_dbgapi_set_watchpoint(process, at, sizeof before, AMD_DBGAPI_WATCHPOINT_KIND_STORE_AND_RMW, &watchpoint));
	read_memory(at, &before, sizeof before);
	amd_dbgapi_wave_id_t wave = next_wave(AMD_DBGAPI_WAVE_STOP_REASON_WATCHPOINT);
	read_memory(at, &after, sizeof after);
	EXPECT(before == 0 && after == 76);
	CHECK(amd_dbgapi_wave_get_info(wave, AMD_DBGAPI_WAVE_INFO_WATCHPOINTS, sizeof met, &met));
	EXPECT(met.count == 1 && met.watchpoint_ids[0].handle == watchpoint.handle);
	free(met.watchpoint_ids);
	resume(wave);
	CHECK(amd_dbgapi_remove_watchpoint(watchpoint));
	finish_well();
}

/* A wave stops for an exception, which its runtime gets in the end; the program ends of it. */
static void exception(const char *name, amd_dbgapi_wave_stop_reasons_t reason, amd_dbgapi_exceptions_t passed)
{
	start(program, name);
	amd_dbgapi_wave_id_t wave = next_wave(reason);
	uint64_t kernel = symbol(name), pc = program_counter(wave);
	if (pc < kernel || pc > kernel + 256)
		FAIL("the wave is at %#lx, not in the kernel at %#lx", (long)pc, (long)kernel);
	CHECK(amd_dbgapi_wave_resume(wave, AMD_DBGAPI_RESUME_MODE_NORMAL, passed));
	EXPECT(finish() != 0);
}

static void memory_violation_stops_the_wave_and_ends_the_program(void)
{
	exception("violating", AMD_DBGAPI_WAVE_STOP_REASON_MEMORY_VIOLATION, AMD_DBGAPI_EXCEPTION_WAVE_MEMORY_VIOLATION);
}

static void illegal_instruction_stops_the_wave_and_ends_the_program(void)
{
	exception("illegal", AMD_DBGAPI_WAVE_STOP_REASON_ILLEGAL_INSTRUCTION, AMD_DBGAPI_EXCEPTION_WAVE_ILLEGAL_INSTRUCTION);
}

static void failed_assertion_stops_the_wave_and_ends_the_program(void)
{
	exception("asserting", AMD_DBGAPI_WAVE_STOP_REASON_ASSERT_TRAP, AMD_DBGAPI_EXCEPTION_WAVE_ABORT);
}

/* Waits until there are waves, and gives them. */
static void wait_waves(size_t count, amd_dbgapi_wave_id_t *found)
{
	for (;;) {
		amd_dbgapi_wave_id_t *list;
		size_t all = waves(&list);
		EXPECT(all <= count);
		if (all == count)
			memcpy(found, list, count * sizeof *found);
		free(list);
		if (all == count)
			return;
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	}
}

static amd_dbgapi_wave_id_t stop_spinning(void)
{
	amd_dbgapi_wave_id_t wave;
	wait_waves(1, &wave);
	CHECK(amd_dbgapi_wave_stop(wave));
	EXPECT(next_wave(AMD_DBGAPI_WAVE_STOP_REASON_NONE).handle == wave.handle);
	uint64_t kernel = symbol("spinning"), pc = program_counter(wave);
	EXPECT(pc >= kernel && pc < kernel + 256);
	return wave;
}

static void running_program_is_attached_to_and_detached_from(void)
{
	start_free(program, "spinning");
	attach(child);
	amd_dbgapi_wave_id_t wave = stop_spinning();
	step(wave);
	resume(wave);
	detach();
	let_go();
	finish_free();
}

static void detaching_lets_a_stopped_wave_go_on(void)
{
	start_free(program, "spinning");
	attach(child);
	stop_spinning();
	detach();
	let_go();
	finish_free();
}

static void waves_of_two_queues_stop_and_go_on(void)
{
	amd_dbgapi_wave_id_t wave[2];
	start(program, "queues");
	for (;;) {
		enum happened what = next(&wave[0]);
		EXPECT(what != ENDED && what != WAVE_STOPPED);
		if (what == SAID)
			break;
	}
	wait_waves(2, wave);
	EXPECT(queue_of(wave[0]).handle != queue_of(wave[1]).handle);
	for (int i = 0; i < 2; i++)
		CHECK(amd_dbgapi_wave_stop(wave[i]));
	for (int i = 0; i < 2; i++) {
		amd_dbgapi_wave_id_t one = next_wave(AMD_DBGAPI_WAVE_STOP_REASON_NONE);
		EXPECT(one.handle == wave[0].handle || one.handle == wave[1].handle);
	}
	step(wave[1]);
	for (int i = 0; i < 2; i++)
		resume(wave[i]);
	let_go();
	finish_well();
}

/* Runs a session in a process of its own. */
static pid_t apart(void (*session)(void))
{
	fflush(stdout);
	pid_t pid = fork();
	EXPECT(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		session();
		fflush(stdout);
		_exit(0);
	}
	return pid;
}

static void two_processes_are_debugged_at_once(void)
{
	pid_t sessions[2] = { apart(breakpoint_at_a_kernel_is_hit_by_each_wave_of_each_launch), apart(arguments_of_each_lane_are_printed) };
	for (int i = 0; i < 2; i++) {
		int status;
		EXPECT(waitpid(sessions[i], &status, 0) == sessions[i]);
		EXPECT(status == 0);
	}
}

static int ready[2];

static void stay(void)
{
	EXPECT(write(ready[1], "", 1) == 1);
	for (;;)
		pause();
}

static void hold_queues(void)
{
	amd_dbgapi_wave_id_t wave;
	attach(child);
	wait_waves(1, &wave);
	/* From now on the library leaves the queues suspended. */
	CHECK(amd_dbgapi_process_set_progress(process, AMD_DBGAPI_PROGRESS_NO_FORWARD));
	wait_waves(1, &wave);
	stay();
}

static void hold_wave(void)
{
	attach(child);
	stop_spinning();
	stay();
}

static void kill_debugger(void (*session)(void))
{
	char byte;
	int status;
	start_free(program, "spinning");
	EXPECT(!pipe(ready));
	pid_t debugger = apart(session);
	close(ready[1]);
	EXPECT(read(ready[0], &byte, 1) == 1);
	EXPECT(!kill(debugger, SIGKILL) && waitpid(debugger, &status, 0) == debugger);
	mend_program();
}

static void queues_of_a_killed_debugger_go_on(void)
{
	kill_debugger(hold_queues);
	let_go();
	finish_free();
}

/* As with Linux, which resumes queues: the wave itself is halted until somebody lets it go on. */
static void wave_of_a_killed_debugger_is_the_next_ones(void)
{
	kill_debugger(hold_wave);
	attach(child);
	detach();
	let_go();
	finish_free();
}

static void debugger_hears_of_the_end_of_a_killed_program(void)
{
	start(program, "trapping");
	next_wave(AMD_DBGAPI_WAVE_STOP_REASON_DEBUG_TRAP);
	EXPECT(!kill(child, SIGKILL));
	int status = finish();
	EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	/* The GPU is there for the next one. */
	EXPECT(!amd_dbgapi_finalize());
	breakpoint_at_a_kernel_is_hit_by_each_wave_of_each_launch();
}

static const struct { const char *name; void (*run)(void); } cases[] = {
#define CASE(name) { #name, name }
	CASE(wave_that_traps_is_stepped),
	CASE(running_program_is_attached_to_and_detached_from),
	CASE(detaching_lets_a_stopped_wave_go_on),
	CASE(breakpoint_at_a_kernel_is_hit_by_each_wave_of_each_launch),
	CASE(arguments_of_each_lane_are_printed),
	CASE(changed_argument_of_a_lane_changes_its_result),
	CASE(watchpoint_on_a_global_variable_stops_after_the_store),
	CASE(memory_violation_stops_the_wave_and_ends_the_program),
	CASE(illegal_instruction_stops_the_wave_and_ends_the_program),
	CASE(failed_assertion_stops_the_wave_and_ends_the_program),
	CASE(waves_of_two_queues_stop_and_go_on),
	CASE(two_processes_are_debugged_at_once),
	CASE(queues_of_a_killed_debugger_go_on),
	CASE(wave_of_a_killed_debugger_is_the_next_ones),
	CASE(debugger_hears_of_the_end_of_a_killed_program),
};

/* Whether a case ends well in its time. */
static bool passes(void (*run)(void))
{
	int status;
	pid_t pid = apart(run);
	for (int tenths = 0; tenths < SECONDS * 10; tenths++) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return status == 0;
		nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
	}
	printf("    no end after %d s\n", SECONDS);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return false;
}

static bool wanted(const char *name, int argc, char **argv)
{
	for (int i = 2; i < argc; i++)
		if (strstr(name, argv[i]))
			return true;
	return argc <= 2;
}

int main(int argc, char **argv)
{
	int passed = 0, failed = 0;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 2) {
		fprintf(stderr, "usage: cases PROGRAM [PART-OF-A-NAME ...]\n");
		return 2;
	}
	program = argv[1];
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (!wanted(cases[i].name, argc, argv))
			continue;
		bool ok = passes(cases[i].run);
		printf("%s: %s\n", cases[i].name, ok ? "ok" : "FAILED");
		*(ok ? &passed : &failed) += 1;
	}
	printf("%d passed, %d failed, 0 absent\n", passed, failed);
	return failed || !passed;
}
