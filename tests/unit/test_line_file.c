/* A file of lines that is replaced, while calls of the system fail. */
#include "holdfast/line_file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static bool no_directory_opens;

/* Stands in front of the system's. */
int open64(const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
	va_end(args);
	if (no_directory_opens && flags & O_DIRECTORY) {
		errno = EMFILE;
		return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static void a_rename_that_cannot_be_synced_is_reported(void **state)
{
	char dir[] = "/tmp/holdfast-lines-XXXXXX";
	struct buffer lines = {0};
	struct buffer found = {0};
	assert_non_null(mkdtemp(dir));
	char *path = xprintf("%s/file", dir);
	buffer_append_str(&lines, "one\n");
	assert_int_equal(line_file_replace(path, &lines), 0);
	no_directory_opens = true;
	buffer_append_str(&lines, "two\n");
	assert_int_equal(line_file_replace(path, &lines), -EMFILE);
	no_directory_opens = false;
	assert_int_equal(line_file_replace(path, &lines), 0);
	assert_int_equal(line_file_read(path, &found), 0);
	assert_string_equal(buffer_cstr(&found), "one\ntwo\n");
	unlink(path);
	rmdir(dir);
	free(path);
	buffer_finish(&lines);
	buffer_finish(&found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rename_that_cannot_be_synced_is_reported),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
