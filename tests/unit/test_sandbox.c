/*
 * What a sandbox lets through, with each version of Landlock up to the kernel's: each in a process
 * of its own, because there is no way out. A kernel without Landlock is told of, and refused.
 */
#include "agents/process/process_internal.h"

#include "holdfast/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char base[] = "/tmp/holdfast-sandbox-XXXXXX";

static const char *path_of(const char *name)
{
	static char paths[4][PATH_MAX];
	static unsigned next;
	char *path = paths[next++ % 4];
	snprintf(path, PATH_MAX, "%s/%s", base, name);
	return path;
}

static void put_file(const char *name)
{
	int fd = open(path_of(name), O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "text", 4), 4);
	close(fd);
}

static int setup(void **state)
{
	assert_non_null(mkdtemp(base));
	mkdir(path_of("in"), 0700);
	mkdir(path_of("in/deep"), 0700);
	mkdir(path_of("ro"), 0700);
	mkdir(path_of("out"), 0700);
	put_file("in/file");
	put_file("ro/file");
	put_file("out/file");
	return 0;
}

static int teardown(void **state)
{
	char command[PATH_MAX];
	snprintf(command, sizeof(command), "rm -rf %s", base);
	return system(command);
}

static int opened(const char *name, int flags)
{
	int fd = open(path_of(name), flags, 0600);
	int err = errno;
	if (fd >= 0) {
		close(fd);
	}
	return fd < 0 ? err : 0;
}

static int failed(long result)
{
	return result < 0 ? errno : 0;
}

#define EXPECT(what, error)                                                                       \
	do {                                                                                      \
		int found = (what);                                                               \
		if (found != (error)) {                                                           \
			fprintf(stderr, "version %d: %s: %s\n", version, #what, strerror(found)); \
			wrong++;                                                                  \
		}                                                                                 \
	} while (0)

static int look_at_files(int version)
{
	int wrong = 0;
	EXPECT(opened("in/file", O_RDWR), 0);
	EXPECT(opened("in/new", O_RDWR | O_CREAT | O_TRUNC), 0);
	EXPECT(opened("in/file", O_WRONLY | O_TRUNC), 0);
	EXPECT(opened("ro/file", O_RDONLY), 0);
	EXPECT(opened("/../../../../dev/null", O_RDWR), 0);
	EXPECT(opened("ro/file", O_WRONLY), EACCES);
	EXPECT(opened("ro/file", O_RDONLY | O_TRUNC), EACCES);
	EXPECT(opened("ro/file", O_ACCMODE | O_TRUNC), EACCES);
	EXPECT(opened("ro/new", O_WRONLY | O_CREAT), EACCES);
	EXPECT(opened("out/file", O_RDONLY), EACCES);
	EXPECT(opened("out/file", O_RDWR), EACCES);
	EXPECT(opened("out/new", O_RDWR | O_CREAT), EACCES);
	EXPECT(failed(truncate(path_of("out/file"), 0)), EACCES);
	EXPECT(failed(truncate(path_of("ro/file"), 0)), EACCES);
	EXPECT(failed(truncate(path_of("in/file"), 1)), version >= 3 ? 0 : EACCES);
	EXPECT(failed(unlink(path_of("out/file"))), EACCES);
	EXPECT(failed(rename(path_of("in/new"), path_of("in/newer"))), 0);
	EXPECT(failed(rename(path_of("in/newer"), path_of("in/deep/newer"))),
		version >= 2 ? 0 : EXDEV);
	EXPECT(failed(rename(path_of("in/file"), path_of("out/file2"))) != 0, 1);
	EXPECT(failed(mknod(path_of("in/null"), S_IFCHR | 0600, 0x103)) != 0, 1);
	return wrong;
}

static int look_at_calls(int version, bool sockets)
{
	int wrong = 0;
	int pair[2];
	EXPECT(failed(socket(AF_UNIX, SOCK_STREAM, 0)), sockets ? 0 : EACCES);
	EXPECT(failed(socketpair(AF_UNIX, SOCK_STREAM, 0, pair)), 0);
	EXPECT(failed(socket(AF_INET, SOCK_STREAM, 0)), 0);
	EXPECT(failed(syscall(SYS_io_uring_setup, 1, NULL)), ENOSYS);
	EXPECT(failed(chown(path_of("in"), 1, 1)) != 0, 1);
	EXPECT(failed(kill(getppid(), 0)), version >= 6 ? EPERM : 0);
	return wrong;
}

static int enter_and_look(int version, bool sockets)
{
	char reads[PATH_MAX];
	char writes[PATH_MAX];
	const char *what;
	snprintf(reads, sizeof(reads), "%s/ro", base);
	snprintf(writes, sizeof(writes), "%s/in", base);
	struct sandbox sandbox = {.reads = (char *[]){reads, NULL},
		.writes = (char *[]){writes, NULL},
		.sockets = sockets};
	if (sandbox_enter(&sandbox, version, &what) < 0) {
		fprintf(stderr, "version %d: %s: %s\n", version, what, strerror(errno));
		return 1;
	}
	return look_at_files(version) + look_at_calls(version, sockets);
}

static void files_that_were_not_granted_cannot_be_reached(void **state)
{
	int newest = sandbox_version();
	if (newest == 0) {
		print_message("this kernel has no Landlock: nothing can be confined here\n");
	}
	for (int version = 1; version <= newest; version++) {
		int status;
		pid_t pid = fork();
		if (pid == 0) {
			_exit(enter_and_look(version, version % 2 == 0));
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		put_file("in/file");
	}
}

static void what_is_granted_must_be_there(void **state)
{
	struct sandbox sandbox = {.reads = (char *[]){(char *)"/nowhere/at/all", NULL}};
	int status;
	pid_t pid = sandbox_version() ? fork() : -1;
	if (pid == 0) {
		const char *what;
		int r = sandbox_enter(&sandbox, 1, &what);
		_exit(!(r < 0 && errno == ENOENT && strcmp(what, "/nowhere/at/all") == 0));
	}
	if (pid > 0) {
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_that_were_not_granted_cannot_be_reached),
		cmocka_unit_test(what_is_granted_must_be_there),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
