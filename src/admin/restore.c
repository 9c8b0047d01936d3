/*
 * holdfast restore: makes a data directory from a backup. It is built as DIR.restoring and renamed
 * when it is complete. By then its sessions have new epochs, so that no client mistakes new events
 * for old ones.
 */
#include "admin.h"
#include "backup.h"

#include "holdfast/access.h"
#include "holdfast/beneath.h"
#include "holdfast/buffer.h"
#include "holdfast/diag.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEEP_SECRETS, OPTION_COUNT };

static const struct option options[] = {
	[KEEP_SECRETS] = {"--keep-secrets", NULL, NULL, NULL,
		"take the access token, the keys, tokens and logins from the backup (backup --secrets).\n"
		"      Otherwise the server makes new ones when it starts"},
	{0},
};

static const struct command command = {
	.usage = "restore BACKUP DIR [OPTIONS]",
	.help = "Makes the data directory DIR, which must be empty or not exist, from a backup: BACKUP is a directory that\n"
		"holdfast backup has made, or the directory that contains them, for the newest. Every session gets a new epoch,\n"
		"so that clients load it again. Browsers have to subscribe to push messages again.\n\n"
		"If it is interrupted, run it again.\n\n"
		"Exit codes: 0 done, 1 done, but sessions are damaged, in the backup too; 2 failed.\n",
	.options = options,
	.words_min = 2,
	.words_max = 2,
};

static int fail(const char *what, const char *path, int error)
{
	diag(DIAG_ERROR, "%s %s: %s", what, path, strerror(-error));
	return error;
}

/**
 * Returns the path of a backup: `path`, or the newest one in it (caller frees). NULL after
 * reporting that there is none.
 */
static char *find_backup(const char *path)
{
	char **names;
	size_t count;
	char *found = NULL;
	char *mark = xprintf("%s/" STORE_BACKUP_MARK, path);
	if (access(mark, F_OK) == 0) {
		found = xstrdup(path);
	} else if (backup_list(path, &names, &count) == 0) {
		found = count ? xprintf("%s/%s", path, names[count - 1]) : NULL;
		backup_list_free(names, count);
	}
	if (!found) {
		diag(DIAG_ERROR, "%s is not a backup, and contains none", path);
	}
	free(mark);
	return found;
}

static int check_dir(const char *dir)
{
	if (rmdir(dir) < 0 && errno != ENOENT) {
		if (errno == ENOTEMPTY || errno == EEXIST) {
			diag(DIAG_ERROR, "%s is not empty; restore makes a new directory", dir);
			return -EEXIST;
		}
		return fail("cannot use", dir, -errno);
	}
	return 0;
}

/* The file that marks a directory which a restore is building. */
#define RESTORE_MARK "restoring"

/** Creates the directory to build in. Replaces one that an interrupted restore left, no other. */
static int make_partial(const char *partial)
{
	char *mark = xprintf("%s/" RESTORE_MARK, partial);
	bool is_ours = access(mark, F_OK) == 0;
	int r = is_ours ? backup_remove_tree(partial) : 0;
	if (r == 0 && mkdir(partial, 0700) < 0) {
		r = -errno;
	}
	int fd = r < 0 ? -1 : open_plain_path(mark, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (r == 0 && (fd < 0 || close(fd) < 0)) {
		r = -errno;
	}
	free(mark);
	return r < 0 ? fail("cannot create", partial, r) : 0;
}

static int copy_secrets(const char *backup, const char *partial)
{
	char *why = NULL;
	int r = access_copy(backup, partial, true, &why);
	if (r == -ENOENT) {
		diag(DIAG_ERROR, "%s has no secrets: it was made without --secrets", backup);
	} else if (r < 0) {
		diag(DIAG_ERROR, "%s", why);
	}
	free(why);
	return r;
}

/** Gives the copied sessions new epochs and verifies them. Returns the exit code. */
static int finish(const char *partial)
{
	char *why = NULL;
	struct store_files files;
	int code = TOOL_FAILED;
	if (tool_give_epochs(partial, NULL, false) < 0) {
		return TOOL_FAILED;
	}
	if (store_files_open(partial, &files, &why) == 0) {
		code = tool_verify_files(&files, partial, NULL);
	} else {
		diag(DIAG_ERROR, "%s", why);
	}
	store_files_close(&files);
	free(why);
	return code;
}

static void remove_mark(const char *dir)
{
	char *mark = xprintf("%s/" RESTORE_MARK, dir);
	unlink(mark);
	free(mark);
	backup_sync(dir);
}

/** Returns the exit code. */
static int restore(const char *backup, const char *dir, bool keeps_secrets)
{
	struct store_copy done;
	size_t len = strlen(dir);
	while (len > 1 && dir[len - 1] == '/') {
		len--;
	}
	char *partial = xprintf("%.*s.restoring", (int)len, dir);
	int code = TOOL_FAILED;
	int r = check_dir(dir);
	r = r < 0 ? r : make_partial(partial);
	r = r < 0 ? r : backup_copy(backup, partial, NULL, &done);
	if (r == 0 && keeps_secrets) {
		r = copy_secrets(backup, partial);
	}
	if (r == 0) {
		code = finish(partial);
	}
	if (code != TOOL_FAILED && backup_sync(partial) < 0) {
		code = TOOL_FAILED;
	}
	if (code != TOOL_FAILED && rename(partial, dir) < 0) {
		fail("cannot rename", partial, -errno);
		code = TOOL_FAILED;
	}
	if (code != TOOL_FAILED) {
		remove_mark(dir);
		diag_print("%s: %llu sessions from %s, each with a new epoch", dir,
			(unsigned long long)done.sessions, backup);
		code = code ? code : done.left_out > 0;
	}
	free(partial);
	return code;
}

int tool_restore(int argc, char **argv)
{
	const char *words[2] = {0};
	const char *values[OPTION_COUNT] = {0};
	int r = options_parse(&command, argc, argv, words, values, NULL);
	if (r != 0) {
		return r < 0 ? TOOL_FAILED : 0;
	}
	umask(077);
	char *backup = find_backup(words[0]);
	int code = backup ? restore(backup, words[1], values[KEEP_SECRETS] != NULL) : TOOL_FAILED;
	free(backup);
	return code;
}
