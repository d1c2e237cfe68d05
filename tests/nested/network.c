// The nested tier's roles for the network: a listener around a guest, who calls it from the guest, and a root to pivot from.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "roles.h"

static int reachable(struct sockaddr_in *to, const char *address, const char *port)
{
	memset(to, 0, sizeof(*to));
	to->sin_family = AF_INET;
	to->sin_port = htons(atoi(port));
	return inet_pton(AF_INET, address, &to->sin_addr) == 1 ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
}

// A block of the bytes that travel: more of them than the card has buffers for.
static unsigned char pattern(unsigned long at)
{
	return at * 7 + at / 251;
}

#define TOTAL (256ul << 10)

static void send_all(int to)
{
	unsigned char block[4096];
	for (unsigned long at = 0; at < TOTAL; at += sizeof(block)) {
		for (unsigned long byte = 0; byte < sizeof(block); byte++)
			block[byte] = pattern(at + byte);
		for (size_t sent = 0; sent < sizeof(block);) {
			ssize_t now = send(to, block + sent, sizeof(block) - sent, MSG_NOSIGNAL);
			if (now <= 0)
				fail("send");
			sent += now;
		}
	}
}

static void receive_all(int from)
{
	unsigned char block[4096];
	unsigned long at = 0;
	ssize_t now;
	while (at < TOTAL && (now = recv(from, block, sizeof(block), 0)) > 0)
		for (ssize_t byte = 0; byte < now; byte++, at++)
			if (block[byte] != pattern(at)) {
				fprintf(stderr, "byte %lu differs\n", at);
				exit(1);
			}
	if (at != TOTAL) {
		fprintf(stderr, "the stream ended after %lu bytes\n", at);
		exit(1);
	}
}

// Listens on this machine's own address while a program runs; every byte that a caller sends comes back to it changed in
// place, as the caller and the listener know the pattern.
int answer(const char *port, char **argv)
{
	struct sockaddr_in at;
	int listener = reachable(&at, "127.0.0.1", port);
	if (listener < 0 || bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 1))
		fail("listen");
	pid_t child = fork();
	if (child == 0) {
		execv(argv[0], argv);
		fail(argv[0]);
	}
	pid_t answering = fork();
	if (answering == 0) {
		int caller = accept(listener, NULL, NULL);
		if (caller < 0)
			fail("accept");
		receive_all(caller);
		send_all(caller);
		printf("answered %lu bytes\n", TOTAL);
		exit(0);
	}
	int status, answered;
	if (waitpid(child, &status, 0) != child)
		fail("waitpid");
	kill(answering, SIGTERM);
	if (waitpid(answering, &answered, 0) != answering)
		fail("waitpid");
	if (answered)
		fprintf(stderr, "nobody was answered\n");
	return WIFEXITED(status) && !answered ? WEXITSTATUS(status) : 1;
}

// Calls a listener outside of the guest.
int call(const char *address, const char *port)
{
	struct sockaddr_in to;
	int line = reachable(&to, address, port);
	if (line < 0 || connect(line, (struct sockaddr *)&to, sizeof(to)))
		fail(address);
	send_all(line);
	receive_all(line);
	show("resolver", "/etc/resolv.conf");
	printf("called %s: %lu bytes each way\n", address, TOTAL);
	return 0;
}

// Runs a program with a root that can be pivoted from, which an initramfs cannot.
int in_root(char **argv)
{
	mkdir("/around", 0755);
	if (unshare(CLONE_NEWNS) || mount("/", "/around", NULL, MS_BIND | MS_REC, NULL) || chdir("/around") ||
	    mount(".", "/", NULL, MS_MOVE, NULL) || chroot(".") || chdir("/"))
		fail("a new root");
	execv(argv[0], argv);
	fail(argv[0]);
	return 1;
}
