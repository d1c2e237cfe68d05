// A debugger without a library: DBG_TRAP and ptrace. `traps CASE PROGRAM`, with debugged.hip as the program.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kfd_ioctl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FAIL(...) (printf("%s:%d: ", __FILE__, __LINE__), printf(__VA_ARGS__), puts(""), fail())
#define EXPECT(what) ((what) ? (void)0 : (void)FAIL("not so: %s (errno %d)", #what, errno))
#define MASK(code) KFD_EC_MASK(code)

enum { QUEUES = 8, OPTIONS = PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC };

static const char *program;
static pid_t child;
static int kfd = -1, notices[2], to_child, from_child;

static void fail(void)
{
	fflush(stdout);
	if (child > 0)
		kill(child, SIGKILL);
	_exit(1);
}

static void wait_for_debugger(void) { raise(SIGSTOP); }

/* Starts the program; `first` runs in it before it is the program, or instead of it. */
static void spawn(void (*first)(void))
{
	int in[2], out[2];
	EXPECT(!pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC));
	fflush(stdout);
	child = fork();
	EXPECT(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], 0);
		dup2(out[1], 1);
		if (first)
			first();
		if (!first || first == wait_for_debugger)
			execl(program, program, "spinning", NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	to_child = in[1];
	from_child = out[0];
}

static void wait_launched(void)
{
	char line[64];
	EXPECT(read(from_child, line, sizeof line) > 0);
}

static void finish(void)
{
	int status;
	EXPECT(write(to_child, "", 1) == 1);
	EXPECT(waitpid(child, &status, 0) == child);
	if (status)
		FAIL("the program's status is %#x", status);
}

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

static void seize(pid_t thread) { EXPECT(!ptrace(PTRACE_SEIZE, thread, 0, OPTIONS)); }

static void stop(pid_t thread)
{
	int status;
	EXPECT(!ptrace(PTRACE_INTERRUPT, thread, 0, 0));
	EXPECT(waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status));
}

static void go(pid_t thread) { EXPECT(!ptrace(PTRACE_CONT, thread, 0, 0)); }

static void release(pid_t thread)
{
	EXPECT(!ptrace(PTRACE_DETACH, thread, 0, 0));
}

static int trap(pid_t pid, int op, struct kfd_ioctl_dbg_trap_args *args)
{
	args->pid = pid;
	args->op = op;
	return ioctl(kfd, AMDKFD_IOC_DBG_TRAP, args) < 0 ? -errno : 0;
}

static int enable(pid_t pid, struct kfd_runtime_info *info)
{
	struct kfd_ioctl_dbg_trap_args args = { 0 };
	memset(info, 0xff, sizeof *info);
	args.enable.exception_mask = MASK(EC_PROCESS_RUNTIME) | MASK(EC_QUEUE_NEW);
	args.enable.rinfo_ptr = (uintptr_t)info;
	args.enable.rinfo_size = sizeof *info;
	args.enable.dbg_fd = notices[1];
	int result = trap(pid, KFD_IOC_DBG_TRAP_ENABLE, &args);
	EXPECT(result || args.enable.rinfo_size == sizeof *info);
	return result;
}

static int disable(pid_t pid)
{
	struct kfd_ioctl_dbg_trap_args args = { 0 };
	return trap(pid, KFD_IOC_DBG_TRAP_DISABLE, &args);
}

/* Queues of the program; their exceptions are forgotten. */
static int queues(struct kfd_queue_snapshot_entry *entries)
{
	/* More room for each than it needs. */
	struct { struct kfd_queue_snapshot_entry entry; uint64_t more[5]; } apart[QUEUES];
	struct kfd_ioctl_dbg_trap_args args = { 0 };
	memset(apart, 0xee, sizeof apart);
	args.queue_snapshot.exception_mask = MASK(EC_QUEUE_NEW);
	args.queue_snapshot.snapshot_buf_ptr = (uintptr_t)apart;
	args.queue_snapshot.num_queues = QUEUES;
	args.queue_snapshot.entry_size = sizeof apart[0];
	EXPECT(!trap(child, KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT, &args));
	EXPECT(args.queue_snapshot.entry_size == sizeof *entries && args.queue_snapshot.num_queues <= QUEUES);
	for (unsigned i = 0; i < args.queue_snapshot.num_queues; i++) {
		entries[i] = apart[i].entry;
		EXPECT(apart[i].more[0] == 0xeeeeeeeeeeeeeeee);
	}
	return args.queue_snapshot.num_queues;
}

static int suspend(uint32_t *ids, int count)
{
	struct kfd_ioctl_dbg_trap_args args = { .pid = child, .op = KFD_IOC_DBG_TRAP_SUSPEND_QUEUES };
	args.suspend_queues.queue_array_ptr = (uintptr_t)ids;
	args.suspend_queues.num_queues = count;
	args.suspend_queues.exception_mask = MASK(EC_QUEUE_NEW);
	return ioctl(kfd, AMDKFD_IOC_DBG_TRAP, &args);
}

static int resume(uint32_t *ids, int count)
{
	struct kfd_ioctl_dbg_trap_args args = { .pid = child, .op = KFD_IOC_DBG_TRAP_RESUME_QUEUES };
	args.resume_queues.queue_array_ptr = (uintptr_t)ids;
	args.resume_queues.num_queues = count;
	return ioctl(kfd, AMDKFD_IOC_DBG_TRAP, &args);
}

/* Takes all queues off the GPU; whether a wave of one of them is in memory. */
static int suspend_all(uint32_t *ids, bool *saved)
{
	struct kfd_queue_snapshot_entry entries[QUEUES];
	int count = queues(entries);
	EXPECT(count > 0);
	for (int i = 0; i < count; i++)
		ids[i] = entries[i].queue_id;
	EXPECT(suspend(ids, count) == count);
	*saved = false;
	for (int i = 0; i < count; i++) {
		struct kfd_context_save_area_header header;
		struct iovec local = { &header, sizeof header };
		struct iovec remote = { (void *)entries[i].ctx_save_restore_address, sizeof header };
		EXPECT(ids[i] == entries[i].queue_id);
		if (entries[i].queue_type != KFD_IOC_QUEUE_TYPE_COMPUTE_AQL)
			continue;
		EXPECT(process_vm_readv(child, &local, 1, &remote, 1, 0) == sizeof header);
		*saved |= header.wave_state.wave_state_size > 0;
	}
	return count;
}

/* The program is attached to, and a kernel spins. */
static void look_at_stopped_program(void)
{
	uint32_t ids[QUEUES];
	bool saved;
	threads(stop);
	int count = suspend_all(ids, &saved);
	EXPECT(saved);
	EXPECT(resume(ids, count) == count);
	/* The same once more: the wave has gone on, and is saved anew. */
	count = suspend_all(ids, &saved);
	EXPECT(saved);
	EXPECT(resume(ids, count) == count);
	uint32_t none = 12345;
	EXPECT(suspend(&none, 1) == 0 && none == (12345u | KFD_DBG_QUEUE_INVALID_MASK));
	EXPECT(suspend((uint32_t *)8, 1) == -1 && errno == EFAULT);
}

static void detach(void)
{
	struct kfd_runtime_info info;
	EXPECT(enable(child, &info) == -EALREADY);
	EXPECT(!disable(child));
	EXPECT(disable(child) == -EINVAL);
	threads(release);
}

static void running_program(void)
{
	struct kfd_runtime_info info;
	spawn(NULL);
	wait_launched();
	threads(seize);
	EXPECT(!enable(child, &info));
	EXPECT(info.runtime_state == DEBUG_RUNTIME_STATE_ENABLED && info.r_debug);
	look_at_stopped_program();
	detach();
	finish();
}

/* Takes a notice; whether it was that the runtime waits, which goes on now. */
static bool answer_runtime(void)
{
	struct kfd_runtime_info info = { 0 };
	struct kfd_ioctl_dbg_trap_args args = { 0 }, more = { 0 }, sent = { 0 };
	char byte;
	EXPECT(read(notices[0], &byte, 1) == 1);
	args.query_debug_event.exception_mask = MASK(EC_PROCESS_RUNTIME) | MASK(EC_QUEUE_NEW);
	int result = trap(child, KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT, &args);
	EXPECT(!result || result == -EAGAIN);
	if (result || !(args.query_debug_event.exception_mask & MASK(EC_PROCESS_RUNTIME)))
		return false;
	more.query_exception_info.info_ptr = (uintptr_t)&info;
	more.query_exception_info.info_size = sizeof info;
	more.query_exception_info.exception_code = EC_PROCESS_RUNTIME;
	EXPECT(trap(child, KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO, &more) == -ENODATA);
	sent.send_runtime_event.exception_mask = MASK(EC_PROCESS_RUNTIME);
	EXPECT(!trap(child, KFD_IOC_DBG_TRAP_SEND_RUNTIME_EVENT, &sent));
	return true;
}

/* Lets the program go on while its GPU is asked for, until it says that it has launched. */
static void follow(void)
{
	bool runtime = false;
	for (;;) {
		struct pollfd files[2] = { { notices[0], POLLIN, 0 }, { from_child, POLLIN, 0 } };
		int status;
		pid_t thread;
		poll(files, 2, 10);
		if (files[0].revents)
			runtime |= answer_runtime();
		while ((thread = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
			if (!WIFSTOPPED(status)) {
				EXPECT(thread != child);
				continue;
			}
			int event = status >> 16, signal = WSTOPSIG(status);
			ptrace(PTRACE_CONT, thread, 0, event || signal == SIGTRAP ? 0 : signal);
		}
		if (files[1].revents & POLLIN) {
			wait_launched();
			EXPECT(runtime);
			return;
		}
	}
}

static void program_without_a_gpu(void)
{
	int status;
	struct kfd_runtime_info info;
	struct kfd_queue_snapshot_entry entries[QUEUES];
	spawn(wait_for_debugger);
	EXPECT(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
	seize(child);
	EXPECT(!kill(child, SIGCONT));
	for (;;) {
		EXPECT(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
		if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8))
			break;
		go(child);
	}
	/* The program has not run yet. */
	EXPECT(!enable(child, &info));
	EXPECT(info.runtime_state == DEBUG_RUNTIME_STATE_DISABLED && !info.r_debug);
	EXPECT(queues(entries) == 0);
	uint32_t none = 1;
	EXPECT(suspend(&none, 1) == -1 && errno == EPERM);
	struct kfd_dbg_device_info_entry device = { 0 };
	struct kfd_ioctl_dbg_trap_args args = { 0 };
	args.device_snapshot.snapshot_buf_ptr = (uintptr_t)&device;
	args.device_snapshot.num_devices = 1;
	args.device_snapshot.entry_size = sizeof device;
	EXPECT(!trap(child, KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT, &args));
	EXPECT(args.device_snapshot.num_devices == 1 && device.gpu_id);
	go(child);
	follow();
	uint32_t before = device.gpu_id;
	EXPECT(!trap(child, KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT, &args) && device.gpu_id == before);
	look_at_stopped_program();
	detach();
	finish();
}

static void others_may_not(void)
{
	struct kfd_runtime_info info;
	uint32_t none = 1;
	spawn(NULL);
	wait_launched();
	EXPECT(enable(child, &info) == -EPERM);
	EXPECT(suspend(&none, 1) == -1 && errno == EPERM);
	EXPECT(disable(child) == -EPERM);
	EXPECT(enable(1, &info) == -ESRCH);
	EXPECT(enable(0x3ffffff, &info) == -ESRCH);
	if (!geteuid()) {
		int status;
		pid_t other = fork();
		EXPECT(other >= 0);
		if (!other) {
			kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
			EXPECT(kfd >= 0 && !setresuid(65534, 65534, 65534));
			pid_t program = child;
			child = -1;
			EXPECT(enable(program, &info) == -EPERM);
			_exit(0);
		}
		EXPECT(waitpid(other, &status, 0) == other && !status);
	}
	finish();
}

static void not_debuggable(void)
{
	struct kfd_runtime_info info;
	spawn(NULL);
	wait_launched();
	threads(seize);
	EXPECT(enable(child, &info) == -ESRCH);
	EXPECT(disable(child) == -ESRCH);
	threads(stop);
	threads(release);
	finish();
}

static void killed_debugger(void)
{
	int ready[2], status;
	char byte;
	spawn(NULL);
	wait_launched();
	EXPECT(!pipe(ready));
	pid_t debugger = fork();
	EXPECT(debugger >= 0);
	if (!debugger) {
		struct kfd_runtime_info info;
		uint32_t ids[QUEUES];
		bool saved;
		kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
		threads(seize);
		EXPECT(!enable(child, &info));
		threads(stop);
		suspend_all(ids, &saved);
		EXPECT(saved && write(ready[1], "", 1) == 1);
		for (;;)
			pause();
	}
	close(ready[1]);
	EXPECT(read(ready[0], &byte, 1) == 1);
	EXPECT(!kill(debugger, SIGKILL) && waitpid(debugger, &status, 0) == debugger);
	finish();
}

/* A runtime that says when it ends, as its debugger hears. */
static void runtime(void)
{
	struct kfd_ioctl_runtime_enable_args args = { .r_debug = 4096, .mode_mask = KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK };
	char byte;
	int fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, AMDKFD_IOC_RUNTIME_ENABLE, &args) || write(1, "up\n", 3) != 3 || read(0, &byte, 1) != 1)
		_exit(2);
	args.mode_mask = 0;
	_exit(ioctl(fd, AMDKFD_IOC_RUNTIME_ENABLE, &args) ? 3 : 0);
}

/* It waits for the debugger, whose answer lets it end. */
static void program_that_ends(void)
{
	struct kfd_runtime_info info;
	bool answered = false;
	int status = 0;
	/* The child opens the driver itself. */
	spawn(runtime);
	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	wait_launched();
	threads(seize);
	EXPECT(!enable(child, &info));
	EXPECT(info.runtime_state == DEBUG_RUNTIME_STATE_ENABLED);
	EXPECT(write(to_child, "", 1) == 1);
	for (pid_t thread = 0; thread != child || WIFSTOPPED(status);) {
		struct pollfd file = { notices[0], POLLIN, 0 };
		poll(&file, 1, 10);
		if (file.revents)
			answered |= answer_runtime();
		while ((thread = waitpid(-1, &status, WNOHANG | __WALL)) > 0 && WIFSTOPPED(status)) {
			int event = status >> 16, signal = WSTOPSIG(status);
			ptrace(PTRACE_CONT, thread, 0, event || signal == SIGTRAP ? 0 : signal);
		}
	}
	EXPECT(answered);
	if (status)
		FAIL("the program's status is %#x", status);
}

static void killed_program(void)
{
	int status;
	struct kfd_runtime_info info;
	spawn(NULL);
	wait_launched();
	threads(seize);
	EXPECT(!enable(child, &info));
	EXPECT(!kill(child, SIGKILL));
	/* Of its first thread, one hears when all others are gone. */
	for (pid_t thread = 0; thread != child;)
		EXPECT((thread = waitpid(-1, &status, __WALL)) > 0);
	EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	struct kfd_queue_snapshot_entry entries[QUEUES];
	struct kfd_ioctl_dbg_trap_args args = { 0 };
	args.queue_snapshot.snapshot_buf_ptr = (uintptr_t)entries;
	args.queue_snapshot.num_queues = QUEUES;
	args.queue_snapshot.entry_size = sizeof entries[0];
	/* The driver ends a moment later. */
	for (int tenths = 0; tenths < 100; tenths++) {
		if (trap(child, KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT, &args) == -ESRCH)
			return;
		nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
	}
	FAIL("a program that was killed is debugged still");
}

static const struct { const char *name; void (*run)(void); } cases[] = {
#define CASE(name) { #name, name }
	CASE(running_program),
	CASE(program_without_a_gpu),
	CASE(others_may_not),
	CASE(not_debuggable),
	CASE(killed_debugger),
	CASE(killed_program),
	CASE(program_that_ends),
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 3 && i < sizeof cases / sizeof *cases; i++)
		if (!strcmp(cases[i].name, argv[1])) {
			program = argv[2];
			/* Children that open it themselves are processes of their own. */
			if (strcmp(argv[1], "killed_debugger") && strcmp(argv[1], "program_that_ends"))
				kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
			EXPECT(!pipe2(notices, O_CLOEXEC));
			cases[i].run();
			puts("ok");
			return 0;
		}
	fprintf(stderr, "usage: traps CASE PROGRAM\n");
	return 2;
}
