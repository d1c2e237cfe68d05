// The session of a debugger: threads of the processor over ptrace, waves over ROCdbgapi.
#define _GNU_SOURCE
#include "session.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BREAKPOINTS = 16 };
struct breakpoint { amd_dbgapi_breakpoint_id_t id; uint64_t at; uint8_t byte; };

amd_dbgapi_process_id_t process;
amd_dbgapi_runtime_state_t runtime;
pid_t child;
int child_status;

static int memory = -1, notifier = -1, to_child = -1, from_child = -1;
static bool attached, has_pending;
static amd_dbgapi_event_id_t pending;
/* Shared with a process that outlives the debugger. */
static struct breakpoint *breakpoints;

void fail(void)
{
	if (child > 0)
		kill(child, SIGKILL);
	_exit(1);
}

static amd_dbgapi_status_t process_info(amd_dbgapi_client_process_id_t id, amd_dbgapi_client_process_info_t query, size_t size, void *value)
{
	(void)id;
	if (query != AMD_DBGAPI_CLIENT_PROCESS_INFO_OS_PID || size != sizeof child)
		return AMD_DBGAPI_STATUS_ERROR_NOT_AVAILABLE;
	memcpy(value, &child, size);
	return AMD_DBGAPI_STATUS_SUCCESS;
}

static amd_dbgapi_status_t insert(amd_dbgapi_client_process_id_t id, amd_dbgapi_global_address_t at, amd_dbgapi_breakpoint_id_t breakpoint)
{
	uint8_t trap = 0xcc;
	(void)id;
	for (struct breakpoint *one = breakpoints; one < breakpoints + BREAKPOINTS; one++) {
		if (one->at)
			continue;
		if (pread(memory, &one->byte, 1, at) != 1 || pwrite(memory, &trap, 1, at) != 1)
			return AMD_DBGAPI_STATUS_ERROR;
		one->id = breakpoint;
		one->at = at;
		return AMD_DBGAPI_STATUS_SUCCESS;
	}
	return AMD_DBGAPI_STATUS_ERROR;
}

static amd_dbgapi_status_t take_out(amd_dbgapi_client_process_id_t id, amd_dbgapi_breakpoint_id_t breakpoint)
{
	(void)id;
	for (struct breakpoint *one = breakpoints; one < breakpoints + BREAKPOINTS; one++)
		if (one->at && one->id.handle == breakpoint.handle) {
			/* The program may be gone. */
			(void)!pwrite(memory, &one->byte, 1, one->at);
			one->at = 0;
		}
	return AMD_DBGAPI_STATUS_SUCCESS;
}

static amd_dbgapi_status_t transfer(amd_dbgapi_client_process_id_t id, amd_dbgapi_global_address_t at, amd_dbgapi_size_t *size, void *to, const void *from)
{
	ssize_t done = to ? pread(memory, to, *size, at) : pwrite(memory, from, *size, at);
	(void)id;
	*size = done < 0 ? 0 : done;
	return done < 0 ? AMD_DBGAPI_STATUS_ERROR_MEMORY_ACCESS : AMD_DBGAPI_STATUS_SUCCESS;
}

static void message(amd_dbgapi_log_level_t level, const char *text)
{
	printf("    dbgapi[%d]: %s\n", level, text);
}

static amd_dbgapi_callbacks_t callbacks = {
	.allocate_memory = malloc, .deallocate_memory = free, .client_process_get_info = process_info,
	.insert_breakpoint = insert, .remove_breakpoint = take_out, .xfer_global_memory = transfer, .log_message = message,
};

/* The processor's side of an attachment is there; the GPU's follows. */
static void open_session(void)
{
	const char *level = getenv("DBGLOG");
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/mem", child);
	memory = open(path, O_RDWR | O_CLOEXEC);
	EXPECT(memory >= 0);
	amd_dbgapi_set_log_level(level ? atoi(level) : AMD_DBGAPI_LOG_LEVEL_WARNING);
	CHECK(amd_dbgapi_initialize(&callbacks));
	CHECK(amd_dbgapi_process_attach((amd_dbgapi_client_process_id_t)1, &process));
	CHECK(amd_dbgapi_process_get_info(process, AMD_DBGAPI_PROCESS_INFO_NOTIFIER, sizeof notifier, &notifier));
	attached = true;
}

static void spawn(const char *program, const char *name, bool traced)
{
	int in[2], out[2];
	breakpoints = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	EXPECT(breakpoints != MAP_FAILED && !pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC));
	fflush(stdout);
	child = fork();
	EXPECT(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], 0);
		dup2(out[1], 1);
		if (traced)
			ptrace(PTRACE_TRACEME, 0, 0, 0);
		execl(program, program, name, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	to_child = in[1];
	from_child = out[0];
}

void start(const char *program, const char *name)
{
	int status;
	spawn(program, name, true);
	EXPECT(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
	EXPECT(!ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL));
	open_session();
	EXPECT(!ptrace(PTRACE_CONT, child, 0, 0));
}

void start_free(const char *program, const char *name)
{
	char line[64];
	spawn(program, name, false);
	EXPECT(read(from_child, line, sizeof line) > 0);
}

void let_go(void) { EXPECT(write(to_child, "", 1) == 1); }

void finish_free(void)
{
	EXPECT(waitpid(child, &child_status, 0) == child);
	if (child_status)
		FAIL("the program's status is %#x", child_status);
}

/* Calls `each` for every thread. */
static void threads(void (*each)(pid_t))
{
	char path[64];
	struct dirent *entry;
	snprintf(path, sizeof path, "/proc/%d/task", child);
	DIR *folder = opendir(path);
	EXPECT(folder);
	while ((entry = readdir(folder)))
		if (entry->d_name[0] != '.')
			each(atoi(entry->d_name));
	closedir(folder);
}

static void seize(pid_t thread) { EXPECT(!ptrace(PTRACE_SEIZE, thread, 0, PTRACE_O_TRACECLONE)); }

void attach(pid_t pid)
{
	child = pid;
	threads(seize);
	open_session();
}

static void release(pid_t thread)
{
	int status;
	EXPECT(!ptrace(PTRACE_INTERRUPT, thread, 0, 0));
	EXPECT(waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status));
	EXPECT(!ptrace(PTRACE_DETACH, thread, 0, 0));
}

void detach(void)
{
	CHECK(amd_dbgapi_process_detach(process));
	attached = false;
	threads(release);
}

void mend_program(void)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/mem", child);
	int file = open(path, O_RDWR | O_CLOEXEC);
	EXPECT(file >= 0);
	for (struct breakpoint *one = breakpoints; one < breakpoints + BREAKPOINTS; one++)
		if (one->at) {
			EXPECT(pwrite(file, &one->byte, 1, one->at) == 1);
			one->at = 0;
		}
	close(file);
}

static void step_over(pid_t thread, const struct breakpoint *over)
{
	uint8_t trap = 0xcc;
	int status;
	EXPECT(pwrite(memory, &over->byte, 1, over->at) == 1);
	ptrace(PTRACE_SINGLESTEP, thread, 0, 0);
	waitpid(thread, &status, __WALL);
	EXPECT(pwrite(memory, &trap, 1, over->at) == 1);
	ptrace(PTRACE_CONT, thread, 0, 0);
}

/* A thread has stopped, perhaps at a breakpoint of the library. */
static void thread_stopped(pid_t thread, int status)
{
	int signal = WSTOPSIG(status);
	if (signal == SIGTRAP && !(status >> 16)) {
		struct user_regs_struct regs;
		ptrace(PTRACE_GETREGS, thread, 0, &regs);
		for (struct breakpoint *one = breakpoints; one < breakpoints + BREAKPOINTS; one++)
			if (one->at && one->at == regs.rip - 1) {
				amd_dbgapi_breakpoint_action_t action;
				regs.rip--;
				ptrace(PTRACE_SETREGS, thread, 0, &regs);
				CHECK(amd_dbgapi_report_breakpoint_hit(one->id, (amd_dbgapi_client_thread_id_t)(long)thread, &action));
				if (action == AMD_DBGAPI_BREAKPOINT_ACTION_RESUME)
					step_over(thread, one);
				return;
			}
		signal = 0;
	} else if (signal == SIGSTOP || status >> 16) {
		signal = 0;
	}
	ptrace(PTRACE_CONT, thread, 0, signal);
}

/* The next event of the library; false when there is none that a case hears of. */
static bool next_event(enum happened *what, amd_dbgapi_wave_id_t *wave)
{
	amd_dbgapi_event_kind_t kind;
	for (;;) {
		amd_dbgapi_event_id_t event;
		CHECK(amd_dbgapi_process_next_pending_event(process, &event, &kind));
		switch (kind) {
		case AMD_DBGAPI_EVENT_KIND_NONE:
			return false;
		case AMD_DBGAPI_EVENT_KIND_WAVE_STOP:
			CHECK(amd_dbgapi_event_get_info(event, AMD_DBGAPI_EVENT_INFO_WAVE, sizeof *wave, wave));
			CHECK(amd_dbgapi_event_processed(event));
			*what = WAVE_STOPPED;
			return true;
		case AMD_DBGAPI_EVENT_KIND_RUNTIME:
			CHECK(amd_dbgapi_event_get_info(event, AMD_DBGAPI_EVENT_INFO_RUNTIME_STATE, sizeof runtime, &runtime));
			*what = RUNTIME_CHANGED;
			break;
		case AMD_DBGAPI_EVENT_KIND_CODE_OBJECT_LIST_UPDATED:
			*what = CODE_LOADED;
			break;
		case AMD_DBGAPI_EVENT_KIND_QUEUE_ERROR:
			*what = QUEUE_FAILED;
			break;
		case AMD_DBGAPI_EVENT_KIND_BREAKPOINT_RESUME: {
			amd_dbgapi_client_thread_id_t thread;
			amd_dbgapi_breakpoint_id_t id;
			CHECK(amd_dbgapi_event_get_info(event, AMD_DBGAPI_EVENT_INFO_CLIENT_THREAD, sizeof thread, &thread));
			CHECK(amd_dbgapi_event_get_info(event, AMD_DBGAPI_EVENT_INFO_BREAKPOINT, sizeof id, &id));
			for (struct breakpoint *one = breakpoints; one < breakpoints + BREAKPOINTS; one++)
				if (one->at && one->id.handle == id.handle)
					step_over((pid_t)(long)thread, one);
			CHECK(amd_dbgapi_event_processed(event));
			continue;
		}
		default:
			CHECK(amd_dbgapi_event_processed(event));
			continue;
		}
		/* The program goes on when the case has done what it wants to do now. */
		pending = event;
		has_pending = true;
		return true;
	}
}

enum happened next(amd_dbgapi_wave_id_t *wave)
{
	enum happened what;
	if (has_pending) {
		has_pending = false;
		CHECK(amd_dbgapi_event_processed(pending));
	}
	if (next_event(&what, wave))
		return what;
	for (;;) {
		struct pollfd files[2] = { { notifier, POLLIN, 0 }, { from_child, POLLIN, 0 } };
		int status;
		pid_t thread;
		char line[256];
		poll(files, 2, 5);
		if (files[0].revents && next_event(&what, wave))
			return what;
		if (files[1].revents & POLLIN && read(from_child, line, sizeof line) > 0)
			return SAID;
		while ((thread = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
			if (WIFSTOPPED(status)) {
				thread_stopped(thread, status);
			} else if (thread == child) {
				child_status = status;
				CHECK(amd_dbgapi_process_detach(process));
				attached = false;
				child = -1;
				return ENDED;
			}
		}
	}
}

amd_dbgapi_wave_id_t next_wave(amd_dbgapi_wave_stop_reasons_t reason)
{
	for (;;) {
		amd_dbgapi_wave_id_t wave;
		amd_dbgapi_wave_stop_reasons_t found;
		enum happened what = next(&wave);
		if (what == ENDED)
			FAIL("the program ended with status %#x before a wave stopped", child_status);
		if (what != WAVE_STOPPED)
			continue;
		CHECK(amd_dbgapi_wave_get_info(wave, AMD_DBGAPI_WAVE_INFO_STOP_REASON, sizeof found, &found));
		if (found != reason)
			FAIL("a wave stopped at %#lx for the reasons %#x, not %#x", (long)program_counter(wave), found, reason);
		return wave;
	}
}

int finish(void)
{
	for (;;) {
		amd_dbgapi_wave_id_t wave;
		enum happened what = next(&wave);
		if (what == WAVE_STOPPED)
			FAIL("a wave stopped at %#lx", (long)program_counter(wave));
		if (what == ENDED)
			return child_status;
	}
}

void finish_well(void)
{
	int status = finish();
	if (status)
		FAIL("the program's status is %#x", status);
}
