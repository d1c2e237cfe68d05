// The nested tier's roles for shared folders: what a guest does in one that it may write to, and in one that it may not.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "roles.h"

#define SIZE (1 << 20)

static void expect(int holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "%s: not so (%s)\n", what, strerror(errno));
		exit(1);
	}
}

static void refused(int done, int error, const char *what)
{
	if (done >= 0 || errno != error) {
		fprintf(stderr, "%s: %s\n", what, done >= 0 ? "done" : strerror(errno));
		exit(1);
	}
}

static int entries(const char *path)
{
	int count = 0;
	DIR *directory = opendir(path);
	expect(directory != NULL, path);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

// Reads, writes, maps, names, removes: what programs do with files.
int share(const char *folder)
{
	expect(!chdir(folder), folder);
	show("input", "input");
	unsigned char *data = malloc(SIZE), *again = malloc(SIZE);
	for (int at = 0; at < SIZE; at++)
		data[at] = at * 13 + at / 4093;
	int file = open("output", O_RDWR | O_CREAT | O_EXCL, 0640);
	expect(file >= 0 && write(file, data, SIZE) == SIZE && !fsync(file), "writing");
	expect(pread(file, again, SIZE, 0) == SIZE && !memcmp(data, again, SIZE), "reading");
	unsigned char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 4096);
	expect(map != MAP_FAILED && !memcmp(map, data + 4096, 4096), "mapping");
	memcpy(map, "mapped", 6);
	expect(!msync(map, 4096, MS_SYNC) && !munmap(map, 4096) && !close(file), "writing through a mapping");
	file = open("output", O_WRONLY | O_APPEND);
	expect(file >= 0 && write(file, "appended", 8) == 8 && !close(file), "appending");
	struct stat found;
	expect(!stat("output", &found) && found.st_size == SIZE + 8 && (found.st_mode & 07777) == 0640, "attributes");
	expect(!mkdir("folder", 0755) && !rename("output", "folder/moved"), "moving");
	expect(!symlink("folder/moved", "link") && !link("folder/moved", "second"), "linking");
	expect(!stat("link", &found) && found.st_nlink == 2 && !truncate("second", SIZE), "following in the guest");
	for (int number = 0; number < 100; number++) {
		char name[64];
		snprintf(name, sizeof(name), "folder/entry-with-a-name-of-some-length-%03d", number);
		file = open(name, O_WRONLY | O_CREAT, 0600);
		expect(file >= 0 && !close(file), name);
	}
	expect(entries("folder") == 103, "listing");
	for (int number = 0; number < 100; number++) {
		char name[64];
		snprintf(name, sizeof(name), "folder/entry-with-a-name-of-some-length-%03d", number);
		expect(!unlink(name), name);
	}
	file = open("brief", O_RDWR | O_CREAT, 0600);
	expect(file >= 0 && !unlink("brief") && write(file, "x", 1) == 1, "a file without a name");
	expect(!fstat(file, &found) && found.st_size == 1 && !close(file), "its attributes");
	refused(chmod("second", 04755), EPERM, "a program with its owner's rights");
	// The link leads out of the folder on the host; here it leads to the guest's own file.
	refused(open("outside", O_RDONLY), ENOENT, "a link out of the folder");
	printf("the folder was used\n");
	return 0;
}

// Reads, and is refused everything else.
int share_read_only(const char *folder)
{
	expect(!chdir(folder), folder);
	show("input", "input");
	refused(open("input", O_WRONLY), EROFS, "writing");
	refused(open("new", O_RDWR | O_CREAT, 0600), EROFS, "making");
	refused(unlink("input"), EROFS, "removing");
	refused(mkdir("folder", 0755), EROFS, "a folder");
	refused(chmod("input", 0777), EROFS, "permissions");
	printf("the folder was read\n");
	return 0;
}
