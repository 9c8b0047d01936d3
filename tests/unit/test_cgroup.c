/*
 * Whether the server finds a control group to divide, in a faked hierarchy: a folder with the files
 * that the kernel would show.
 */
#include "agents/process/process_internal.h"

#include "holdfast/cgroup.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#define SELF "9:name=systemd:/x\n1:cpu:/y\n0::/app.service\n"

static char mount[64];

static const char *path_of(const char *name)
{
	static char paths[4][PATH_MAX];
	static unsigned next;
	char *path = paths[next++ % 4];
	snprintf(path, PATH_MAX, "%s/app.service%s%s", mount, *name ? "/" : "", name);
	return path;
}

static void put(const char *name, const char *text)
{
	FILE *file = fopen(path_of(name), "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void expect(const char *name, const char *text)
{
	char found[256] = "";
	FILE *file = fopen(path_of(name), "r");
	assert_non_null(file);
	found[fread(found, 1, sizeof(found) - 1, file)] = '\0';
	fclose(file);
	assert_string_equal(found, text);
}

static const char *own_pid(const char *end)
{
	static char text[32];
	snprintf(text, sizeof(text), "%d%s", (int)getpid(), end);
	return text;
}

static int setup(void **state)
{
	strcpy(mount, "/tmp/holdfast-cgroup-XXXXXX");
	assert_non_null(mkdtemp(mount));
	assert_int_equal(mkdir(path_of(""), 0700), 0);
	put("cgroup.controllers", "cpuset cpu io memory pids\n");
	put("cgroup.subtree_control", "");
	put("cgroup.procs", own_pid("\n"));
	bool is_marked = setxattr(path_of(""), "user.delegate", "1", 1, 0) == 0 ||
			 setxattr(path_of(""), "trusted.delegate", "1", 1, 0) == 0;
	if (!is_marked && geteuid() == 0) {
		print_message(
			"no file system for attributes here: a group cannot be marked as delegated\n");
	}
	*state = is_marked || geteuid() != 0 ? mount : NULL;
	return 0;
}

static int teardown(void **state)
{
	char command[128];
	snprintf(command, sizeof(command), "rm -rf %s", mount);
	return system(command);
}

static void expect_none(const struct cgroup_wish *wish, const char *self, const char *expected)
{
	char *why = NULL;
	assert_null(cgroup_find(NULL, wish, mount, self, &why));
	assert_non_null(why);
	if (!strstr(why, expected)) {
		fail_msg("%s", why);
	}
	free(why);
}

static void a_group_that_is_the_servers_is_divided(void **state)
{
	char *why = NULL;
	if (!*state) {
		return;
	}
	char *dir = cgroup_find(NULL, &(struct cgroup_wish){true, true}, mount, SELF, &why);
	assert_null(why);
	assert_string_equal(dir, path_of(""));
	expect("server/cgroup.procs", own_pid(""));
	expect("cgroup.subtree_control", "+memory +pids");
	free(dir);
	put("cgroup.subtree_control", "");
	dir = cgroup_find(NULL, &(struct cgroup_wish){.processes = true}, mount, SELF, &why);
	assert_non_null(dir);
	expect("cgroup.subtree_control", "+pids");
	free(dir);
}

static void what_cannot_be_divided_is_left_as_it_is(void **state)
{
	const struct cgroup_wish both = {true, true};
	expect_none(&both, "9:name=systemd:/x\n", "no control groups of version 2");
	expect_none(&both, "0::/nowhere\n", "no controller \"memory\"");
	put("cgroup.controllers", "cpu memory pids_too\n");
	expect_none(&both, SELF, "no controller \"pids\"");
	put("cgroup.controllers", "memory pids\n");
	if (*state) {
		put("cgroup.procs", own_pid("\n1\n"));
		expect_none(&both, SELF, "other processes");
		put("cgroup.procs", own_pid("\n"));
		assert_int_equal(unlink(path_of("cgroup.subtree_control")), 0);
		assert_int_equal(mkdir(path_of("cgroup.subtree_control"), 0700), 0);
		expect_none(&both, SELF, "cannot be divided");
		expect("cgroup.procs", own_pid("\n"));
	}
	removexattr(path_of(""), "user.delegate");
	removexattr(path_of(""), "trusted.delegate");
	if (geteuid() == 0) {
		expect_none(&both, SELF, "is not delegated");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_group_that_is_the_servers_is_divided, setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_cannot_be_divided_is_left_as_it_is, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
