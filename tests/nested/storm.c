// A storm on shared folders: processes that use the same few names at once, in every way, and one file each of their own.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "roles.h"

#define CHILDREN 6
#define STEPS 1500
#define OWN 8192

static uint64_t state;

static unsigned below(unsigned end)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % end;
}

// One of a few names, so that processes meet: files, folders in folders, the folder's parent, names that are too long.
static const char *name(void)
{
	static char text[2][600];
	static int turn;
	char *at = text[turn ^= 1];
	switch (below(10)) {
	case 0:
		memset(at, 'n', 300);
		at[300] = 0;
		break;
	case 1:
		snprintf(at, 600, "d%u/../d%u/f%u", below(3), below(3), below(4));
		break;
	case 2:
		snprintf(at, 600, "../closed/f%u", below(4));
		break;
	case 3:
	case 4:
		snprintf(at, 600, "d%u", below(3));
		break;
	case 5:
	case 6:
		snprintf(at, 600, "d%u/f%u", below(3), below(4));
		break;
	default:
		snprintf(at, 600, "f%u", below(4));
	}
	return at;
}

static void list(const char *path)
{
	DIR *directory = opendir(path);
	if (!directory)
		return;
	for (int again = below(2); readdir(directory);)
		if (again && below(8) == 0) {
			rewinddir(directory);
			again = 0;
		}
	closedir(directory);
}

static void use(int file)
{
	static char data[70000];
	struct stat found;
	if (file < 0)
		return;
	switch (below(5)) {
	case 0:
		if (pwrite(file, data, below(sizeof(data)), below(1 << 20)) < 0)
			break;
		break;
	case 1:
		if (pread(file, data, below(sizeof(data)), below(1 << 20)) < 0)
			break;
		break;
	case 2:
		if (ftruncate(file, below(1 << 18)))
			break;
		break;
	case 3:
		fsync(file);
		break;
	default:
		fstat(file, &found);
	}
	close(file);
}

// Any one thing; an error is an answer as well.
static void anything(void)
{
	struct stat found;
	struct statvfs system;
	char target[64];
	int done = 0;
	switch (below(14)) {
	case 0:
	case 1:
		use(open(name(), O_RDWR | O_CREAT, 0600));
		break;
	case 2:
		use(open(name(), O_RDONLY | O_NOFOLLOW));
		break;
	case 3:
		done = mkdir(name(), 0700);
		break;
	case 4:
		done = rmdir(name());
		break;
	case 5:
		done = unlink(name());
		break;
	case 6:
		done = rename(name(), name());
		break;
	case 7:
		done = link(name(), name());
		break;
	case 8:
		snprintf(target, sizeof(target), "%s", below(2) ? "../outside" : "f0");
		done = symlink(target, name());
		break;
	case 9:
		done = (int)readlink(name(), target, sizeof(target));
		break;
	case 10:
		list(below(2) ? "." : name());
		break;
	case 11:
		done = chmod(name(), below(01000));
		break;
	case 12:
		done = statvfs(name(), &system);
		break;
	default:
		done = lstat(name(), &found);
	}
	(void)done;
}

// The process's own file has to have, at every moment, the bytes that the process wrote last.
static int child(int number)
{
	char own[32];
	unsigned char expected[OWN] = {0}, found[OWN];
	state = 0x9e3779b97f4a7c15ull * (number + 1);
	snprintf(own, sizeof(own), "own-%d", number);
	int file = open(own, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (file < 0 || write(file, expected, OWN) != OWN)
		return 1;
	for (int step = 0; step < STEPS; step++) {
		anything();
		unsigned at = below(OWN - 64), bytes = 1 + below(64);
		memset(expected + at, step, bytes);
		if (pwrite(file, expected + at, bytes, at) != bytes)
			return 2;
		if (step % 50 == 0 && (pread(file, found, OWN, 0) != OWN || memcmp(found, expected, OWN)))
			return 4;
	}
	return 0;
}

int storm(const char *folder, const char *closed)
{
	char path[300];
	if (chdir(folder))
		fail(folder);
	fflush(NULL);
	for (int number = 0; number < CHILDREN; number++)
		if (fork() == 0)
			_exit(child(number));
	int wrong = 0, status;
	while (wait(&status) > 0)
		if (status) {
			fprintf(stderr, "a process of the storm ended with %#x\n", status);
			wrong = 1;
		}
	snprintf(path, sizeof(path), "%s/input", closed);
	show("closed", path);
	int file = open("after", O_RDWR | O_CREAT | O_EXCL, 0600);
	if (file < 0 || write(file, "after", 5) != 5)
		fail("a file after the storm");
	if (!wrong)
		printf("the storm is over\n");
	return wrong;
}
