// What the nested tier's tests run in L1 and in L2, by the name of the role.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "roles.h"

void fail(const char *what)
{
	perror(what);
	exit(1);
}

// Prints the first line of a file and of a disk, writes to the disk, and ends with a status of its own.
void show(const char *what, const char *file)
{
	char text[2048] = "";
	int from = open(file, O_RDONLY);
	if (from < 0 || read(from, text, sizeof(text) - 1) < 0)
		fail(file);
	close(from);
	printf("%s: %.*s\n", what, (int)strcspn(text, "\n"), text);
}

static int look(const char *file, const char *disk)
{
	char text[512] = "";
	show("command line", "/proc/cmdline");
	show("file", file);
	int device = open(disk, O_RDWR);
	if (device < 0 || pread(device, text, 512, 0) != 512)
		fail(disk);
	printf("disk: %.*s\n", (int)strcspn(text, "\n"), text);
	memset(text, 'x', sizeof(text));
	if (pwrite(device, text, 512, 0) != 512 || fsync(device))
		fail(disk);
	return 7;
}

static int asleep(void)
{
	if (write(1, "asleep\n", 7) != 7)
		fail("write");
	sleep(1000);
	return 0;
}

static int panic(void)
{
	int trigger = open("/proc/sysrq-trigger", O_WRONLY);
	if (trigger < 0 || write(trigger, "c", 1) != 1)
		fail("/proc/sysrq-trigger");
	return 0;
}

// Runs a program without privileges.
static int as_nobody(char **argv)
{
	if (setgid(65534) || setuid(65534))
		fail("setuid");
	execv(argv[0], argv);
	fail(argv[0]);
	return 1;
}

// Runs a program until it says that it is asleep, terminates it, and tells how it ended.
static int terminate(char **argv)
{
	int out[2];
	if (pipe(out))
		fail("pipe");
	pid_t child = fork();
	if (child == 0) {
		dup2(out[1], 1);
		close(out[0]);
		close(out[1]);
		execv(argv[0], argv);
		fail(argv[0]);
	}
	close(out[1]);
	FILE *stream = fdopen(out[0], "r");
	char line[256];
	while (stream && fgets(line, sizeof(line), stream))
		if (strcmp(line, "asleep\n") == 0) {
			kill(child, SIGTERM);
			break;
		}
	int status;
	if (waitpid(child, &status, 0) != child)
		fail("waitpid");
	if (WIFSIGNALED(status))
		printf("ended by signal %d\n", WTERMSIG(status));
	else
		printf("ended with status %d\n", WEXITSTATUS(status));
	return 0;
}

int main(int argc, char **argv)
{
	const char *role = argc > 1 ? argv[1] : "";
	if (!strcmp(role, "look") && argc == 4)
		return look(argv[2], argv[3]);
	if (!strcmp(role, "asleep"))
		return asleep();
	if (!strcmp(role, "panic"))
		return panic();
	if (!strcmp(role, "as-nobody") && argc > 2)
		return as_nobody(argv + 2);
	if (!strcmp(role, "terminate") && argc > 2)
		return terminate(argv + 2);
	if (!strcmp(role, "answer") && argc > 3)
		return answer(argv[2], argv + 3);
	if (!strcmp(role, "call") && argc == 4)
		return call(argv[2], argv[3]);
	if (!strcmp(role, "in-root") && argc > 2)
		return in_root(argv + 2);
	if (!strcmp(role, "link") && argc == 4)
		return symlink(argv[2], argv[3]);
	if (!strcmp(role, "share") && argc == 3)
		return share(argv[2]);
	if (!strcmp(role, "storm") && argc == 4)
		return storm(argv[2], argv[3]);
	if (!strcmp(role, "share-read-only") && argc == 3)
		return share_read_only(argv[2]);
	if (!strcmp(role, "share-read-only") && argc == 6 && !strcmp(argv[3], "call"))
		return share_read_only(argv[2]) || call(argv[4], argv[5]);
	fprintf(stderr, "no role %s\n", role);
	return 2;
}
