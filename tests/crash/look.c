#include "look.h"

#include "holdfast/session.h"
#include "holdfast/store_check.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static void take(struct found *found, const char *place, const char *what)
{
	snprintf(found->first, sizeof(found->first), "%s: %s", place, what);
}

static void handle_problem(void *owner, const char *place, const char *what)
{
	struct found *found = owner;
	if (!found->problems++) {
		take(found, place, what);
	}
}

static void handle_note(void *owner, const char *place, const char *what)
{
	struct found *found = owner;
	if (!found->notes++ && !found->problems) {
		take(found, place, what);
	}
}

static void handle_progress(void *owner, uint64_t bytes)
{
}

struct found look_in(const struct store_files *files)
{
	static const struct store_check_ops ops = {
		handle_problem, handle_note, handle_progress, NULL, &session_facts_ops};
	struct found found = {0};
	struct store_check_counts counts;
	assert_int_equal(store_check(files, NULL, &ops, &found, &counts), 0);
	assert_int_equal(counts.problems, found.problems);
	return found;
}

struct found look(const char *dir)
{
	struct store_files files;
	char *why;
	assert_int_equal(store_files_open(dir, &files, &why), 0);
	store_files_hold(&files);
	assert_false(files.in_use);
	struct found found = look_in(&files);
	store_files_close(&files);
	return found;
}

void assert_clean(const char *dir)
{
	struct found found = look(dir);
	if (found.problems || found.notes) {
		fail_msg("found in a good directory: %s", found.first);
	}
}

void assert_no_problem(const char *dir)
{
	struct found found = look(dir);
	if (found.problems) {
		fail_msg("%zu problems, first of all is told: %s", found.problems, found.first);
	}
}

int run_quietly(int (*tool)(int argc, char **argv), const char *dir, const char *option)
{
	fflush(stdout);
	int out = dup(STDOUT_FILENO);
	int none = open("/dev/null", O_WRONLY);
	dup2(none, STDOUT_FILENO);
	int code = tool(option ? 2 : 1, (char *[]){(char *)dir, (char *)option, NULL});
	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	close(out);
	close(none);
	return code;
}
