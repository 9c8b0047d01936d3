/*
 * holdfast upgrade: brings a data directory to the newest formats. The journal is recovered as when
 * the server starts, which begins a segment of the newest format and deletes the others; then each
 * session's folder gets a new metadata.json, one after the other.
 */
#include "offline.h"
#include "holdfast/command.h"

#include "holdfast/diag.h"
#include "holdfast/session_state.h"
#include "holdfast/store_upgrade.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRY_RUN, OPTION_COUNT };

static const struct option options[] = {
	[DRY_RUN] = {"--dry-run", NULL, NULL, NULL,
		"change nothing, and print a line for each file in an earlier format; a server may be running meanwhile"},
	{0},
};

static const struct command command = {
	.usage = "upgrade DIR [--dry-run]",
	.help = "Brings a data directory that an earlier version of holdfast has written to the newest formats. The server\n"
		"reads the earlier ones too, and replaces them as it writes; upgrade does so at once, so that a later version\n"
		"that no longer reads them can be installed. No event, number or epoch changes.\n\n"
		"Stop the server first. If upgrade is interrupted, the directory can still be read: run it again. The only way\n"
		"back to an earlier version is a backup.\n\n"
		"Exit codes: 0 everything is in the newest formats; 1 with --dry-run: something is not; 2 failed.\n",
	.options = options,
	.words_min = 1,
	.words_max = 1,
};

struct upgrade {
	bool is_dry;
	bool is_last; /* after the upgrade: anything of an earlier format is an error */
	size_t segments;
	size_t sessions;
	size_t later; /* files of a later version */
};

static void see(void *owner, const struct store_outdated *found)
{
	struct upgrade *upgrade = owner;
	bool is_session = strncmp(found->place, "sessions/", strlen("sessions/")) == 0;
	bool is_later = found->has > found->newest;
	upgrade->segments += !is_session;
	upgrade->sessions += is_session;
	upgrade->later += is_later;
	if (is_later || upgrade->is_last) {
		diag(DIAG_ERROR, "%s is in %s format: %s", found->place,
			is_later ? "a later" : "an earlier",
			is_later ? "install a newer holdfast" : "it cannot be upgraded now");
	} else if (upgrade->is_dry) {
		diag_print("%s: %s %" PRIu64 ", the newest is %" PRIu64, found->place, found->what,
			found->has, found->newest);
	}
}

static int look(const struct store_files *files, const char *dir, struct upgrade *upgrade)
{
	int r = store_upgrade_look(files, session_snapshot_is_foreign, see, upgrade);
	if (r < 0) {
		diag(DIAG_ERROR, "%s cannot be read: %s", dir, strerror(-r));
	}
	return r < 0 ? r : upgrade->later ? -ENOTSUP : 0;
}

/** Opens the directory, and keeps servers from starting on it until it is closed. */
static int hold(const char *dir, bool may_be_in_use, struct store_files *files)
{
	char *why = NULL;
	int r = store_files_open(dir, files, &why);
	if (r == 0) {
		store_files_hold(files);
	}
	if (r == 0 && files->in_use && !may_be_in_use) {
		why = xprintf("a server is using %s: stop it first", dir);
		r = -EBUSY;
	}
	if (r < 0) {
		diag(DIAG_ERROR, "%s", why);
	}
	free(why);
	return r;
}

static int upgrade_sessions(const struct store_files *files)
{
	struct progress progress;
	char **ids;
	size_t count;
	int r = store_files_list_sessions(files, &ids, &count);
	if (r < 0) {
		diag(DIAG_ERROR, "the sessions cannot be listed: %s", strerror(-r));
		return r;
	}
	progress_begin(&progress, "sessions", count);
	for (size_t i = 0; i < count; i++) {
		const char *why;
		int failed = store_upgrade_session(files, ids[i], &session_facts_ops, &why);
		if (failed < 0) {
			progress_hide(&progress);
			diag(DIAG_ERROR, "session %s: its metadata.json is as it was: %s", ids[i],
				why);
			r = failed;
		}
		progress_add(&progress, 1);
		free(ids[i]);
	}
	progress_end(&progress);
	free(ids);
	return r;
}

static int upgrade_folders(const char *dir)
{
	struct store_files files;
	struct upgrade left = {.is_last = true};
	int r = hold(dir, false, &files);
	r = r < 0 ? r : upgrade_sessions(&files);
	r = r < 0 ? r : look(&files, dir, &left);
	store_files_close(&files);
	return r == 0 && left.segments + left.sessions ? -EIO : r;
}

/** Recovers the journal, which also upgrades it, as a start of the server does. */
static int upgrade_journal(const char *dir)
{
	struct offline opened;
	int r = offline_open(&opened, dir, NULL);
	offline_close(&opened);
	return r;
}

static int run(const char *dir, bool is_dry)
{
	struct store_files files;
	struct upgrade found = {.is_dry = is_dry};
	int r = hold(dir, is_dry, &files);
	r = r < 0 ? r : look(&files, dir, &found);
	store_files_close(&files);
	if (r < 0) {
		return TOOL_FAILED;
	}
	bool is_newest = !found.segments && !found.sessions;
	if (is_newest) {
		diag_print_text("everything is in the newest formats\n");
	}
	if (is_newest || is_dry) {
		return is_newest ? 0 : 1;
	}
	r = upgrade_journal(dir);
	r = r < 0 ? r : upgrade_folders(dir);
	if (r < 0) {
		return TOOL_FAILED;
	}
	diag_print(
		"%zu journal segment%s and %zu session%s were in earlier formats; everything is in the newest now",
		found.segments, found.segments == 1 ? "" : "s", found.sessions,
		found.sessions == 1 ? "" : "s");
	return 0;
}

int tool_upgrade(int argc, char **argv)
{
	const char *words[1] = {0};
	const char *values[OPTION_COUNT] = {0};
	int r = options_parse(&command, argc, argv, words, values, NULL);
	if (r != 0) {
		return r < 0 ? TOOL_FAILED : 0;
	}
	return run(words[0], values[DRY_RUN] != NULL);
}
