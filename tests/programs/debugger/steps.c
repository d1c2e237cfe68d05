// A debugger of GPU programs over AMD's ROCdbgapi: it starts a program, and steps its first wave that traps.
#define _GNU_SOURCE
#include <amd-dbgapi/amd-dbgapi.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child;
static int memory;
static amd_dbgapi_process_id_t process;
static struct { amd_dbgapi_breakpoint_id_t id; uint64_t at; uint8_t byte; } breakpoints[16];
static int steps;

#define CHECK(call) do { amd_dbgapi_status_t s = (call); if (s) { printf("%s: status %d\n", #call, s); fflush(stdout); if (child) kill(child, SIGKILL); exit(1); } } while (0)

static amd_dbgapi_status_t process_info(amd_dbgapi_client_process_id_t id, amd_dbgapi_client_process_info_t query, size_t size, void *value)
{
	(void)id;
	if (query == AMD_DBGAPI_CLIENT_PROCESS_INFO_OS_PID) {
		*(amd_dbgapi_os_process_id_t *)value = child;
		return AMD_DBGAPI_STATUS_SUCCESS;
	}
	(void)size;
	return AMD_DBGAPI_STATUS_ERROR_NOT_AVAILABLE;
}

static amd_dbgapi_status_t insert(amd_dbgapi_client_process_id_t id, amd_dbgapi_global_address_t at, amd_dbgapi_breakpoint_id_t breakpoint)
{
	uint8_t trap = 0xcc;
	(void)id;
	for (int i = 0; i < 16; i++) {
		if (breakpoints[i].at)
			continue;
		breakpoints[i].id = breakpoint;
		breakpoints[i].at = at;
		if (pread(memory, &breakpoints[i].byte, 1, at) != 1 || pwrite(memory, &trap, 1, at) != 1)
			return AMD_DBGAPI_STATUS_ERROR;
		printf("breakpoint at %#lx\n", (long)at);
		return AMD_DBGAPI_STATUS_SUCCESS;
	}
	return AMD_DBGAPI_STATUS_ERROR;
}

static amd_dbgapi_status_t removed(amd_dbgapi_client_process_id_t id, amd_dbgapi_breakpoint_id_t breakpoint)
{
	(void)id;
	for (int i = 0; i < 16; i++)
		if (breakpoints[i].at && breakpoints[i].id.handle == breakpoint.handle) {
			(void)!pwrite(memory, &breakpoints[i].byte, 1, breakpoints[i].at);
			breakpoints[i].at = 0;
		}
	return AMD_DBGAPI_STATUS_SUCCESS;
}

static amd_dbgapi_status_t xfer(amd_dbgapi_client_process_id_t id, amd_dbgapi_global_address_t at, amd_dbgapi_size_t *size, void *read, const void *write)
{
	ssize_t done = read ? pread(memory, read, *size, at) : pwrite(memory, write, *size, at);
	(void)id;
	if (done < 0) {
		*size = 0;
		return AMD_DBGAPI_STATUS_ERROR_MEMORY_ACCESS;
	}
	*size = done;
	return AMD_DBGAPI_STATUS_SUCCESS;
}

static void message(amd_dbgapi_log_level_t level, const char *text) { printf("dbgapi[%d]: %s\n", level, text); }

static amd_dbgapi_callbacks_t callbacks = {
	.allocate_memory = malloc, .deallocate_memory = free, .client_process_get_info = process_info,
	.insert_breakpoint = insert, .remove_breakpoint = removed, .xfer_global_memory = xfer, .log_message = message,
};

static void step_over(pid_t thread, int i)
{
	uint8_t trap = 0xcc;
	int status;
	(void)!pwrite(memory, &breakpoints[i].byte, 1, breakpoints[i].at);
	ptrace(PTRACE_SINGLESTEP, thread, 0, 0);
	waitpid(thread, &status, __WALL);
	(void)!pwrite(memory, &trap, 1, breakpoints[i].at);
	ptrace(PTRACE_CONT, thread, 0, 0);
}

static void at_breakpoint(pid_t thread, int i)
{
	amd_dbgapi_breakpoint_action_t action;
	printf("runtime's breakpoint hit\n");
	CHECK(amd_dbgapi_report_breakpoint_hit(breakpoints[i].id, (amd_dbgapi_client_thread_id_t)(long)thread, &action));
	if (action == AMD_DBGAPI_BREAKPOINT_ACTION_RESUME)
		step_over(thread, i);
}

static void show_wave(amd_dbgapi_wave_id_t wave)
{
	amd_dbgapi_wave_stop_reasons_t reason;
	amd_dbgapi_global_address_t pc;
	uint64_t exec;
	uint32_t group[3];
	amd_dbgapi_register_id_t *registers;
	size_t count;
	CHECK(amd_dbgapi_wave_get_info(wave, AMD_DBGAPI_WAVE_INFO_STOP_REASON, sizeof reason, &reason));
	CHECK(amd_dbgapi_wave_get_info(wave, AMD_DBGAPI_WAVE_INFO_PC, sizeof pc, &pc));
	CHECK(amd_dbgapi_wave_get_info(wave, AMD_DBGAPI_WAVE_INFO_EXEC_MASK, sizeof exec, &exec));
	CHECK(amd_dbgapi_wave_get_info(wave, AMD_DBGAPI_WAVE_INFO_WORKGROUP_COORD, sizeof group, group));
	printf("wave %lu stopped: reason %#x pc %#lx exec %#lx workgroup %u", (long)wave.handle, reason, (long)pc, (long)exec, group[0]);
	CHECK(amd_dbgapi_wave_register_list(wave, &count, &registers));
	for (size_t i = 0; i < count; i++) {
		char *name;
		uint32_t lanes[64];
		amd_dbgapi_size_t size;
		CHECK(amd_dbgapi_register_get_info(registers[i], AMD_DBGAPI_REGISTER_INFO_NAME, sizeof name, &name));
		CHECK(amd_dbgapi_register_get_info(registers[i], AMD_DBGAPI_REGISTER_INFO_SIZE, sizeof size, &size));
		if (!strcmp(name, "v0") && size <= sizeof lanes && !amd_dbgapi_read_register(wave, registers[i], 0, size, lanes))
			printf(" v0[5] %#x", lanes[5]);
		free(name);
	}
	free(registers);
	printf(" registers %zu\n", count);
	fflush(stdout);
}

static void events(void)
{
	for (;;) {
		amd_dbgapi_event_id_t event;
		amd_dbgapi_event_kind_t kind;
		CHECK(amd_dbgapi_process_next_pending_event(process, &event, &kind));
		if (kind == AMD_DBGAPI_EVENT_KIND_NONE)
			return;
		if (kind == AMD_DBGAPI_EVENT_KIND_RUNTIME) {
			amd_dbgapi_runtime_state_t state;
			CHECK(amd_dbgapi_event_get_info(event, AMD_DBGAPI_EVENT_INFO_RUNTIME_STATE, sizeof state, &state));
			printf("runtime state %d\n", state);
		} else if (kind == AMD_DBGAPI_EVENT_KIND_WAVE_STOP) {
			amd_dbgapi_wave_id_t wave;
			CHECK(amd_dbgapi_event_get_info(event, AMD_DBGAPI_EVENT_INFO_WAVE, sizeof wave, &wave));
			show_wave(wave);
			CHECK(amd_dbgapi_event_processed(event));
			amd_dbgapi_resume_mode_t mode = steps++ < 3 ? AMD_DBGAPI_RESUME_MODE_SINGLE_STEP : AMD_DBGAPI_RESUME_MODE_NORMAL;
			CHECK(amd_dbgapi_wave_resume(wave, mode, AMD_DBGAPI_EXCEPTION_NONE));
			continue;
		} else if (kind == AMD_DBGAPI_EVENT_KIND_BREAKPOINT_RESUME) {
			amd_dbgapi_client_thread_id_t thread;
			amd_dbgapi_breakpoint_id_t id;
			CHECK(amd_dbgapi_event_get_info(event, AMD_DBGAPI_EVENT_INFO_CLIENT_THREAD, sizeof thread, &thread));
			CHECK(amd_dbgapi_event_get_info(event, AMD_DBGAPI_EVENT_INFO_BREAKPOINT, sizeof id, &id));
			for (int i = 0; i < 16; i++)
				if (breakpoints[i].at && breakpoints[i].id.handle == id.handle)
					step_over((pid_t)(long)thread, i);
		} else {
			printf("event %d\n", kind);
		}
		CHECK(amd_dbgapi_event_processed(event));
	}
}

int main(int argc, char **argv)
{
	char path[64];
	int status, notifier;
	(void)argc;
	setvbuf(stdout, NULL, _IOLBF, 0);
	child = fork();
	if (!child) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	waitpid(child, &status, 0);
	ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
	snprintf(path, sizeof path, "/proc/%d/mem", child);
	memory = open(path, O_RDWR | O_CLOEXEC);
	amd_dbgapi_set_log_level(getenv("DBGLOG") ? atoi(getenv("DBGLOG")) : AMD_DBGAPI_LOG_LEVEL_WARNING);
	CHECK(amd_dbgapi_initialize(&callbacks));
	CHECK(amd_dbgapi_process_attach((amd_dbgapi_client_process_id_t)1, &process));
	CHECK(amd_dbgapi_process_get_info(process, AMD_DBGAPI_PROCESS_INFO_NOTIFIER, sizeof notifier, &notifier));
	printf("attached to %d\n", child);
	ptrace(PTRACE_CONT, child, 0, 0);
	for (;;) {
		struct pollfd poller = { notifier, POLLIN, 0 };
		pid_t thread;
		if (poll(&poller, 1, 5) > 0)
			events();
		while ((thread = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
			if (WIFEXITED(status) || WIFSIGNALED(status)) {
				if (thread == child) {
					printf("exited: status %#x, %d stops\n", status, steps);
					return 0;
				}
				continue;
			}
			int signal = WSTOPSIG(status), found = -1;
			if (signal == SIGTRAP && !(status >> 16)) {
				struct user_regs_struct regs;
				ptrace(PTRACE_GETREGS, thread, 0, &regs);
				for (int i = 0; i < 16; i++)
					if (breakpoints[i].at && breakpoints[i].at == regs.rip - 1)
						found = i;
				if (found >= 0) {
					regs.rip--;
					ptrace(PTRACE_SETREGS, thread, 0, &regs);
					at_breakpoint(thread, found);
					continue;
				}
				signal = 0;
			} else if (signal == SIGSTOP || status >> 16)
				signal = 0;
			ptrace(PTRACE_CONT, thread, 0, signal);
		}
	}
}
