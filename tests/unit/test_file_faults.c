/*
 * A file that an agent reads or writes, where the n-th call of the system that takes part in it
 * fails, once and from then on: the agent hears why or has what it asked for, the file is the old
 * one or the new one with the rights it had, and nothing is left open or behind.
 */
#include "agents/workspace/workspace_internal.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define OLD "old text\n"
#define NEW "new text, of another length\n"

/* These stand in front of the system's: of the calls from now on the n-th one fails. */
static int countdown = -1;
static int error;
static bool lasts;
static size_t hits;

static bool fails(void)
{
	if (countdown < 0 || (countdown > 0 && countdown--)) {
		return false;
	}
	countdown = lasts ? 0 : -1;
	hits++;
	errno = error;
	return true;
}

static long (*real_syscall(void))(long number, ...)
{
	long (*real)(long number, ...);
	void *found = dlsym(RTLD_NEXT, "syscall");
	memcpy(&real, &found, sizeof(real)); /* a pointer to data is none to a function, says C */
	return real;
}

long syscall(long number, ...)
{
	long a[6];
	va_list args;
	va_start(args, number);
	for (size_t i = 0; i < 6; i++) {
		a[i] = va_arg(args, long);
	}
	va_end(args);
	return number == SYS_openat2 && fails()
		       ? -1
		       : real_syscall()(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static int open_really(int dir, const char *path, int flags, va_list args)
{
	mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
	return fails() ? -1 : (int)real_syscall()(SYS_openat, dir, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	int fd = open_really(AT_FDCWD, path, flags, args);
	va_end(args);
	return fd;
}

int openat64(int dir, const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	int fd = open_really(dir, path, flags, args);
	va_end(args);
	return fd;
}

int fstatat64(int dir, const char *restrict path, struct stat64 *restrict st, int flags)
{
	return fails() ? -1 : (int)real_syscall()(SYS_newfstatat, dir, path, st, flags);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	return fails() ? -1 : (int)real_syscall()(SYS_renameat, from_dir, from, to_dir, to);
}

struct place {
	char dir[64];
	char path[80];
};

static void put(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, 0640), 0);
}

static size_t count_entries(const char *path)
{
	size_t count = 0;
	DIR *dir = opendir(path);
	assert_non_null(dir);
	while (readdir(dir)) {
		count++;
	}
	closedir(dir);
	return count;
}

/** Reads, or with `content` writes, while calls fail; the caller destroys the job. */
static struct file_job *work(const struct place *p, const char *content, int nth)
{
	json_t *params = json_pack("{s:s, s:s*}", "path", p->path, "content", content);
	const char *why;
	struct file_job *job = file_job_create(content != NULL, params, &why);
	assert_non_null(job);
	json_decref(params);
	job->root = xstrdup(p->dir);
	job->file_max = 1000;
	job->names_max = 1;
	hits = 0;
	countdown = nth;
	file_job_work(job);
	countdown = -1;
	assert_true(job->code == 0 || job->text.len > 0);
	return job;
}

static void expect_file(const struct place *p, const char *text)
{
	char found[64] = "";
	struct stat st;
	FILE *file = fopen(p->path, "r");
	assert_non_null(file);
	found[fread(found, 1, sizeof(found) - 1, file)] = '\0';
	fclose(file);
	assert_string_equal(found, text);
	assert_int_equal(stat(p->path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
}

static void read_one(const struct place *p, int nth)
{
	struct file_job *job = work(p, NULL, nth);
	assert_true(job->code || strcmp(buffer_cstr(&job->text), "\"old text\\n\"") == 0);
	file_job_destroy(job);
}

static void write_one(const struct place *p, int nth)
{
	struct file_job *job = work(p, NEW, nth);
	expect_file(p, job->code ? OLD : NEW);
	assert_true(job->code || !job->created);
	file_job_destroy(job);
	put(p->path, OLD);
}

static void make_one(const struct place *p, int nth)
{
	assert_int_equal(unlink(p->path), 0);
	struct file_job *job = work(p, NEW, nth);
	assert_int_equal(access(p->path, F_OK), job->code ? -1 : 0);
	assert_true(job->code || job->created);
	file_job_destroy(job);
	put(p->path, OLD);
}

static void fail_each(void (*one)(const struct place *p, int nth), size_t calls_min)
{
	static const int errors[] = {EMFILE, EAGAIN, ENOMEM};
	struct place p = {.dir = "/tmp/holdfast-files-XXXXXX"};
	assert_non_null(mkdtemp(p.dir));
	snprintf(p.path, sizeof(p.path), "%s/f", p.dir);
	put(p.path, OLD);
	size_t entries = count_entries(p.dir);
	size_t open = count_entries("/proc/self/fd");
	for (size_t i = 0; i < 2 * sizeof(errors) / sizeof(*errors); i++) {
		int nth = 0;
		error = errors[i / 2];
		lasts = i % 2;
		do {
			one(&p, nth++);
			assert_int_equal(count_entries(p.dir), entries);
			assert_int_equal(count_entries("/proc/self/fd"), open);
		} while (hits > 0);
		assert_true((size_t)nth > calls_min);
	}
	assert_int_equal(unlink(p.path), 0);
	assert_int_equal(rmdir(p.dir), 0);
}

static void each_call_of_a_read_may_fail(void **state)
{
	fail_each(read_one, 3);
}

static void each_call_of_a_write_may_fail(void **state)
{
	fail_each(write_one, 5);
}

static void each_call_of_a_new_file_may_fail(void **state)
{
	fail_each(make_one, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_call_of_a_read_may_fail),
		cmocka_unit_test(each_call_of_a_write_may_fail),
		cmocka_unit_test(each_call_of_a_new_file_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
