/* holdfast verify: prints the findings of src/core/store/embedded/check.c. */
#include "admin.h"
#include "offline.h"

#include "holdfast/diag.h"
#include "holdfast/session.h"
#include "holdfast/session_state.h"
#include "holdfast/store_database.h"
#include "holdfast/store_kind.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command command = {
	.usage = "verify DIR|ADDRESS [SESSION]",
	.help = "Checks a data directory, or the journal and one session: every checksum, that events are numbered\n"
		"without a gap, that the log, the index and the keys agree, that streams (/v1/stream/) have all their\n"
		"bytes, and that a server can read the secrets and the file of logins. It changes nothing.\n\n"
		"ADDRESS is that of a database, as for serve --store: postgresql://USER@HOST/NAME, or keywords of libpq.\n"
		"The check sees the state of one moment; nodes may be running meanwhile.\n\n"
		"It prints one line for each problem. Lines that begin with \"note:\" are not problems: a crash or\n"
		"new-epoch leaves such files, and the server cleans them up when it starts.\n"
		"A server may be running meanwhile. If none is running, none can start until verify has finished.\n\n"
		"Exit codes: 0 clean, 1 problems found, 2 the check could not be made.\n",
	.words_min = 1,
	.words_max = 2,
};

static void print_finding(
	struct progress *progress, const char *kind, const char *place, const char *what)
{
	progress_hide(progress);
	diag_print("%s%s: %s", kind, place, what);
	diag_flush();
}

static void handle_problem(void *owner, const char *place, const char *what)
{
	print_finding(owner, "", place, what);
}

static void handle_note(void *owner, const char *place, const char *what)
{
	print_finding(owner, "note: ", place, what);
}

static void handle_progress(void *owner, uint64_t bytes)
{
	progress_add(owner, bytes);
}

static void print_count(uint64_t count, const char *what, const char *behind)
{
	diag_print_text(
		"%llu %s%s%s", (unsigned long long)count, what, count == 1 ? "" : "s", behind);
}

static void print_summary(const struct store_check_counts *counts, bool is_database)
{
	print_count(counts->sessions, "session", " with ");
	print_count(counts->events, "event", counts->blobs ? " and " : ", ");
	if (counts->blobs) {
		print_count(counts->blobs, "blob", ", ");
	}
	if (counts->streams) {
		print_count(counts->streams, "stream", ", ");
	}
	if (!is_database) {
		print_count(counts->segments, "journal segment", " with ");
	}
	print_count(counts->records, "record", ": ");
	if (counts->problems) {
		print_count(counts->problems, "problem", "\n");
	} else {
		diag_print_text("clean\n");
	}
}

static const struct store_check_ops ops = {.problem = handle_problem,
	.note = handle_note,
	.progress = handle_progress,
	.is_foreign = session_snapshot_is_foreign,
	.facts = &session_facts_ops};

/** Reports the result of a check. Returns the exit code. */
static int judge(
	int status, const char *place, const char *session, const struct store_check_counts *counts)
{
	if (status == -ENOENT && session) {
		diag(DIAG_ERROR, "there is no session %s in %s", session, place);
		return TOOL_FAILED;
	}
	if (status < 0) {
		diag(DIAG_ERROR, "%s cannot be checked: %s", place, strerror(-status));
		return TOOL_FAILED;
	}
	print_summary(counts, store_kind_of(place));
	return counts->problems ? 1 : 0;
}

int tool_verify_database(struct store_database *database, const char *address, const char *session)
{
	struct store_check_counts counts;
	struct progress progress;
	struct offline opened;
	int r = offline_rehearse(&opened, database);
	if (r == 0) {
		progress_begin(&progress, "B", database->ops->size(database, session));
		r = database->ops->check(database, session, &ops, &progress, &counts);
		progress_end(&progress);
	}
	offline_close(&opened);
	return judge(r, address, session, &counts);
}

int tool_verify_files(const struct store_files *files, const char *dir, const char *session)
{
	struct store_check_counts counts;
	struct progress progress;
	if (files->in_use) {
		diag(DIAG_INFO,
			"a server is using %s: events that it writes during the check are not checked",
			dir);
	}
	progress_begin(&progress, "B", store_check_size(files, session));
	int r = tool_check_dir(files, dir, session, &ops, &progress, &counts);
	progress_end(&progress);
	return judge(r, dir, session, &counts);
}

static int verify_files(const char *dir, const char *session)
{
	char *why = NULL;
	struct store_files files;
	int code = TOOL_FAILED;
	if (store_files_open(dir, &files, &why) == 0) {
		store_files_hold(&files);
		code = tool_verify_files(&files, dir, session);
	} else {
		diag(DIAG_ERROR, "%s", why);
	}
	free(why);
	store_files_close(&files);
	return code;
}

static int verify_database(const char *address, const char *session)
{
	char *why = NULL;
	struct store_database *database;
	int code = TOOL_FAILED;
	if (store_database_open(address, &database, &why) == 0) {
		code = tool_verify_database(database, address, session);
	} else {
		diag(DIAG_ERROR, "%s", why);
	}
	free(why);
	store_database_close(database);
	return code;
}

int tool_verify(int argc, char **argv)
{
	const char *words[2] = {0};
	int r = options_parse(&command, argc, argv, words, NULL, NULL);
	if (r != 0) {
		return r < 0 ? TOOL_FAILED : 0;
	}
	return store_kind_of(words[0]) ? verify_database(words[0], words[1])
				       : verify_files(words[0], words[1]);
}
