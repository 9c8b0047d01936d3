#include "admin/migrate_access.h"

#include "holdfast/buffer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

/* Every second read is interrupted, as by a signal on a network file system. */
static unsigned reads;

ssize_t read(int fd, void *bytes, size_t len)
{
	if (++reads % 2 == 0) {
		errno = EINTR;
		return -1;
	}
	return syscall(SYS_read, fd, bytes, len < 3 ? len : 3);
}

/* A database, of which only what is put there is remembered. */
static struct buffer secret;
static struct buffer lines;

static int put_secret(void *side, const char *name, const char *bytes, size_t len)
{
	buffer_append(&secret, bytes, len);
	return 0;
}

static int put_lines(void *side, const char *bytes, size_t len)
{
	buffer_append(&lines, bytes, len);
	return 0;
}

static void put_file(const char *dir, const char *name, const char *text)
{
	char *path = xprintf("%s/%s", dir, name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	free(path);
}

static void remove_file(const char *dir, const char *name)
{
	char *path = xprintf("%s/%s", dir, name);
	unlink(path);
	free(path);
}

static void an_interrupted_read_loses_nothing(void **state)
{
	static const char revoked[] =
		"{\"revoked\":{\"jti\":\"t1\"}}\n{\"revoked\":{\"jti\":\"t2\"}}\n";
	char dir[] = "/tmp/holdfast-migrate-XXXXXX";
	static const struct moving_shelf shelf = {.put_secret = put_secret, .put_lines = put_lines};
	const struct moving_side database = {.shelf = &shelf};
	char *why = NULL;
	assert_non_null(mkdtemp(dir));
	put_file(dir, "token-secret", "a long secret\n");
	put_file(dir, "access.jsonl", revoked);
	assert_int_equal(migrate_access_up(&database, dir, &why), 0);
	assert_string_equal(buffer_cstr(&secret), "a long secret");
	assert_string_equal(buffer_cstr(&lines), revoked);
	buffer_finish(&secret);
	buffer_finish(&lines);
	remove_file(dir, "token-secret");
	remove_file(dir, "access.jsonl");
	rmdir(dir);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_interrupted_read_loses_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
