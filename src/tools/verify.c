/* holdfast verify: what src/store/check.c finds, for people and for scripts. */
#include "tools_internal.h"

#include "holdfast/diag.h"
#include "holdfast/session.h"
#include "holdfast/session_state.h"
#include "holdfast/store_check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command command = {
	.usage = "verify DIR [SESSION]",
	.help = "Checks a data directory, or the journal and one session: every checksum, that events are numbered\n"
		"without a gap, that the log, the index and the keys agree, and that streams (/v1/stream/) have all their\n"
		"bytes. It changes nothing.\n\n"
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
	printf("%s%s: %s\n", kind, place, what);
	fflush(stdout);
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
	printf("%llu %s%s%s", (unsigned long long)count, what, count == 1 ? "" : "s", behind);
}

static void print_summary(const struct store_check_counts *counts)
{
	print_count(counts->sessions, "session", " with ");
	print_count(counts->events, "event", counts->blobs ? " and " : ", ");
	if (counts->blobs) {
		print_count(counts->blobs, "blob", ", ");
	}
	if (counts->streams) {
		print_count(counts->streams, "stream", ", ");
	}
	print_count(counts->segments, "journal segment", " with ");
	print_count(counts->records, "record", ": ");
	if (counts->problems) {
		print_count(counts->problems, "problem", "\n");
	} else {
		printf("clean\n");
	}
}

int tool_verify_files(const struct store_files *files, const char *dir, const char *session)
{
	static const struct store_check_ops ops = {.problem = handle_problem,
		.note = handle_note,
		.progress = handle_progress,
		.is_foreign = session_snapshot_is_foreign,
		.facts = &session_facts_ops};
	struct store_check_counts counts;
	struct progress progress;
	if (files->in_use) {
		diag(DIAG_INFO,
			"a server is using %s: events that it writes during the check are not checked",
			dir);
	}
	progress_begin(&progress, "B", store_check_size(files, session));
	int r = store_check(files, session, &ops, &progress, &counts);
	progress_end(&progress);
	if (r == -ENOENT && session) {
		diag(DIAG_ERROR, "there is no session %s in %s", session, dir);
		return TOOL_FAILED;
	}
	if (r < 0) {
		diag(DIAG_ERROR, "%s cannot be checked: %s", dir, strerror(-r));
		return TOOL_FAILED;
	}
	print_summary(&counts);
	return counts.problems ? 1 : 0;
}

int tool_verify(int argc, char **argv)
{
	const char *words[2] = {0};
	char *why = NULL;
	struct store_files files;
	int r = options_parse(&command, argc, argv, words, NULL, NULL);
	if (r != 0) {
		return r < 0 ? TOOL_FAILED : 0;
	}
	int code = TOOL_FAILED;
	if (store_files_open(words[0], &files, &why) == 0) {
		store_files_hold(&files);
		code = tool_verify_files(&files, words[0], words[1]);
	} else {
		diag(DIAG_ERROR, "%s", why);
	}
	free(why);
	store_files_close(&files);
	return code;
}
