/*
 * holdfast backup: makes each backup a directory of its own, TARGET/<time>: a data directory with a
 * mark in it. It is written as TARGET/<time>.partial, checked, synced and then renamed, so that
 * interrupting it leaves the earlier backups as they are. Files that have not changed since the
 * last backup are hard links to those of that backup.
 */
#include "admin.h"
#include "backup.h"

#include "holdfast/access.h"
#include "holdfast/beneath.h"
#include "holdfast/buffer.h"
#include "holdfast/clock.h"
#include "holdfast/diag.h"
#include "holdfast/store_check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PARTIAL ".partial"
/* 2026-11-23T13-33-07Z */
#define STAMP_LEN 20

enum { SECRETS, KEEP, OPTION_COUNT };

static const struct option options[] = {
	[SECRETS] = {"--secrets", NULL, NULL, NULL,
		"also copy the access token, the keys, and the records of tokens and logins"},
	[KEEP] = {"--keep", "N", NULL, NULL,
		"keep the newest N backups in TARGET, and delete older ones. Default: all"},
	{0},
};

static const struct command command = {
	.usage = "backup DIR TARGET [OPTIONS]",
	.help = "Copies a data directory, also while its server runs, to a new directory in TARGET, named by the time. It\n"
		"contains every session and stream as it was at one moment during the backup. What has not changed since the\n"
		"last backup in TARGET takes no space: its files are links to those of that one.\n\n"
		"The copy is checked as by holdfast verify. An interrupted backup leaves the earlier ones as they were.\n"
		"holdfast restore makes a data directory from a backup; a server refuses to use a backup directly.\n\n"
		"Exit codes: 0 done, 1 done, but sessions are damaged, in the original too; 2 failed.\n",
	.options = options,
	.words_min = 2,
	.words_max = 2,
};

/* --- shared with restore --- */

bool backup_name_is_valid(const char *name)
{
	static const char form[] = "0000-00-00T00-00-00Z";
	for (size_t i = 0; i < STAMP_LEN; i++) {
		bool fits = form[i] == '0' ? name[i] >= '0' && name[i] <= '9' : name[i] == form[i];
		if (!fits) {
			return false;
		}
	}
	const char *rest = name + STAMP_LEN;
	size_t digits = *rest == '-' ? strspn(rest + 1, "0123456789") : 0;
	return !*rest || (digits && digits < 4 && !rest[1 + digits]);
}

static int is_backup(const struct dirent *entry)
{
	return backup_name_is_valid(entry->d_name);
}

/** Compares two backups by time, then by number: 2 comes before 10. */
static int compare(const struct dirent **a, const struct dirent **b)
{
	int r = strncmp((*a)->d_name, (*b)->d_name, STAMP_LEN);
	long left = strtol((*a)->d_name + STAMP_LEN, NULL, 10);
	long right = strtol((*b)->d_name + STAMP_LEN, NULL, 10);
	return r ? r : (left < right) - (left > right); /* strtol() takes the dash for a minus */
}

int backup_list(const char *dir, char ***ret_names, size_t *ret_count)
{
	struct dirent **entries;
	*ret_names = NULL;
	*ret_count = 0;
	int count = scandir(dir, &entries, is_backup, compare);
	if (count < 0) {
		return -errno;
	}
	*ret_names = xcalloc((size_t)count + 1, sizeof(char *));
	for (int i = 0; i < count; i++) {
		(*ret_names)[(*ret_count)++] = xstrdup(entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	return 0;
}

void backup_list_free(char **names, size_t count)
{
	while (count) {
		free(names[--count]);
	}
	free(names);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *where)
{
	return remove(path) < 0 && errno != ENOENT ? -errno : 0;
}

int backup_remove_tree(const char *path)
{
	int r = nftw(path, remove_entry, 32, FTW_DEPTH | FTW_PHYS);
	return r == -1 ? errno == ENOENT ? 0 : -errno : r;
}

static void handle_progress(void *owner, uint64_t bytes)
{
	progress_add(owner, bytes);
}

static int open_dir(const char *path)
{
	int fd = open_named(path, O_RDONLY | O_DIRECTORY, 0);
	return fd < 0 ? -errno : fd;
}

int backup_copy(const char *from, const char *to, const char *before, struct store_copy *ret)
{
	struct progress progress;
	struct store_files files;
	char *why = NULL;
	*ret = (struct store_copy){.before_fd = before ? open_dir(before) : -1,
		.to_fd = open_dir(to),
		.progress = handle_progress,
		.owner = &progress};
	int r = store_files_open(from, &files, &why);
	if (r == 0 && ret->to_fd < 0) {
		r = ret->to_fd;
		why = xprintf("cannot write to %s: %s", to, strerror(-r));
	}
	if (r == 0) {
		progress_begin(&progress, "B", store_check_size(&files, NULL));
		r = store_copy(&files, ret, &why);
		progress_end(&progress);
	}
	if (r < 0) {
		diag(DIAG_ERROR, "%s", why);
	}
	free(why);
	store_files_close(&files);
	if (ret->before_fd >= 0) {
		close(ret->before_fd);
	}
	if (ret->to_fd >= 0) {
		close(ret->to_fd);
	}
	return r;
}

int backup_sync(const char *dir)
{
	int fd = open_dir(dir);
	int r = fd < 0 ? fd : syncfs(fd) < 0 ? -errno : 0;
	if (fd >= 0) {
		close(fd);
	}
	if (r < 0) {
		diag(DIAG_ERROR, "%s cannot be synced: %s", dir, strerror(-r));
	}
	return r;
}

/* --- the backup --- */

struct backup {
	const char *dir;
	const char *target;
	const char *secrets;
	unsigned long keep; /* 0: all */
	int lock_fd; /* of the target */
	char **names; /* of the existing backups, oldest first */
	size_t count;
};

static int fail(const char *what, const char *path, int error)
{
	diag(DIAG_ERROR, "%s %s: %s", what, path, strerror(-error));
	return error;
}

/** Creates and opens the target, locks it for one backup at a time, and lists its backups. */
static int open_target(struct backup *b)
{
	if (mkdir(b->target, 0700) < 0 && errno != EEXIST) {
		return fail("cannot create", b->target, -errno);
	}
	b->lock_fd = open_dir(b->target);
	if (b->lock_fd < 0) {
		return fail("cannot open", b->target, b->lock_fd);
	}
	if (flock(b->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		diag(DIAG_ERROR, "another backup to %s is under way", b->target);
		return -EBUSY;
	}
	int r = backup_list(b->target, &b->names, &b->count);
	return r < 0 ? fail("cannot read", b->target, r) : 0;
}

static int is_partial(const struct dirent *entry)
{
	char name[64];
	const char *ending = strstr(entry->d_name, PARTIAL);
	snprintf(name, sizeof(name), "%.*s", ending ? (int)(ending - entry->d_name) : 0,
		entry->d_name);
	return ending && !ending[strlen(PARTIAL)] && backup_name_is_valid(name);
}

/** Removes what an interrupted backup has left. */
static int remove_partial(const struct backup *b)
{
	struct dirent **entries;
	int r = 0;
	int count = scandir(b->target, &entries, is_partial, NULL);
	for (int i = 0; i < count; i++) {
		char *path = xprintf("%s/%s", b->target, entries[i]->d_name);
		r = r < 0 ? r : backup_remove_tree(path);
		if (r < 0) {
			fail("cannot remove", path, r);
		}
		free(path);
		free(entries[i]);
	}
	if (count >= 0) {
		free(entries);
	}
	return count < 0 ? -errno : r;
}

/** Names the new backup by the time; adds a number if that would not sort after the newest one. */
static void choose_name(const struct backup *b, char name[64])
{
	time_t now = time(NULL);
	struct tm tm;
	strftime(name, 64, "%Y-%m-%dT%H-%M-%SZ", gmtime_r(&now, &tm));
	const char *newest = b->count ? b->names[b->count - 1] : "";
	if (strncmp(newest, name, STAMP_LEN) >= 0) {
		long number = newest[STAMP_LEN] ? strtol(newest + STAMP_LEN + 1, NULL, 10) : 1;
		snprintf(name, 64, "%.*s-%ld", STAMP_LEN, newest, number + 1);
	}
}

static int write_mark(const struct backup *b, const char *path)
{
	char *mark = xprintf("%s/" STORE_BACKUP_MARK, path);
	int fd = open_plain_path(mark, O_WRONLY | O_CREAT | O_EXCL, 0600);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
	int r = file ? 0 : -errno;
	if (file) {
		fprintf(file,
			"{\"format\":1,\"made_by\":\"holdfast " HOLDFAST_VERSION
			"\",\"secrets\":%s}\n",
			b->secrets ? "true" : "false");
		r = fclose(file) < 0 ? -errno : 0;
	}
	if (r < 0) {
		fail("cannot write", mark, r);
	}
	free(mark);
	return r;
}

static int copy_secrets(const struct backup *b, const char *path)
{
	char *why = NULL;
	int r = b->secrets ? access_copy(b->dir, path, false, &why) : 0;
	if (r < 0) {
		diag(DIAG_ERROR, "%s", why);
	}
	free(why);
	return r;
}

/** Returns the exit code of verify. */
static int check(const char *path)
{
	char *why = NULL;
	struct store_files files;
	int code = TOOL_FAILED;
	if (store_files_open(path, &files, &why) == 0) {
		code = tool_verify_files(&files, path, NULL);
	} else {
		diag(DIAG_ERROR, "%s", why);
	}
	store_files_close(&files);
	free(why);
	return code;
}

static int remove_old(const struct backup *b)
{
	int r = 0;
	size_t keep = b->keep ? (size_t)b->keep - 1 : b->count;
	for (size_t i = 0; r == 0 && i + keep < b->count; i++) {
		char *path = xprintf("%s/%s", b->target, b->names[i]);
		char *going = xprintf("%s" PARTIAL, path);
		/* Renamed first: if this is interrupted, the next backup removes the rest. */
		r = rename(path, going) < 0 ? -errno : backup_remove_tree(going);
		if (r < 0) {
			fail("cannot remove", path, r);
		}
		free(path);
		free(going);
	}
	return r;
}

/** Makes the backup, then removes old ones. Returns the exit code. */
static int make(const struct backup *b, const char *name)
{
	struct store_copy done;
	char *to = xprintf("%s/%s", b->target, name);
	char *partial = xprintf("%s" PARTIAL, to);
	char *before = b->count ? xprintf("%s/%s", b->target, b->names[b->count - 1]) : NULL;
	int r = mkdir(partial, 0700) < 0 ? fail("cannot create", partial, -errno) : 0;
	r = r < 0 ? r : write_mark(b, partial);
	r = r < 0 ? r : backup_copy(b->dir, partial, before, &done);
	r = r < 0 ? r : copy_secrets(b, partial);
	int code = r < 0 ? TOOL_FAILED : check(partial);
	if (code != TOOL_FAILED) {
		r = backup_sync(partial);
		if (r == 0 && rename(partial, to) < 0) {
			r = fail("cannot rename", partial, -errno);
		}
		r = r < 0 ? r : backup_sync(b->target);
		code = r < 0 ? TOOL_FAILED : code;
	}
	if (code != TOOL_FAILED) {
		diag_print(
			"%s: %llu sessions, %llu of them as in the last backup; %llu bytes written",
			to, (unsigned long long)done.sessions, (unsigned long long)done.linked,
			(unsigned long long)done.bytes);
		code = remove_old(b) < 0 ? TOOL_FAILED : code ? code : done.left_out > 0;
	}
	free(to);
	free(partial);
	free(before);
	return code;
}

int tool_backup(int argc, char **argv)
{
	const char *words[2] = {0};
	const char *values[OPTION_COUNT] = {0};
	char name[64];
	int r = options_parse(&command, argc, argv, words, values, NULL);
	if (r != 0) {
		return r < 0 ? TOOL_FAILED : 0;
	}
	struct backup b = {
		.dir = words[0], .target = words[1], .secrets = values[SECRETS], .lock_fd = -1};
	if (values[KEEP]) {
		size_t digits = strspn(values[KEEP], "0123456789");
		b.keep = strtoul(values[KEEP], NULL, 10);
		if (!b.keep || digits > 6 || values[KEEP][digits]) {
			options_refuse(&options[KEEP], values[KEEP], NULL);
			return TOOL_FAILED;
		}
	}
	umask(077);
	r = open_target(&b);
	r = r < 0 ? r : remove_partial(&b);
	int code = TOOL_FAILED;
	if (r == 0) {
		choose_name(&b, name);
		code = make(&b, name);
	}
	backup_list_free(b.names, b.count);
	if (b.lock_fd >= 0) {
		close(b.lock_fd);
	}
	return code;
}
