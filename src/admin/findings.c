/* What holdfast verify finds in a data directory, for other commands. */
#include "admin.h"

#include "holdfast/session.h"
#include "holdfast/session_state.h"
#include "holdfast/store_check.h"
#include "holdfast/store_files.h"

#include <stdlib.h>
#include <string.h>

static void handle_problem(void *owner, const char *place, const char *what)
{
	struct findings *findings = owner;
	findings->lines =
		xrealloc(findings->lines, (findings->count + 1) * sizeof(*findings->lines));
	findings->lines[findings->count++] = xprintf("%s: %s", place, what);
}

static void handle_note(void *owner, const char *place, const char *what)
{
}

static void handle_progress(void *owner, uint64_t bytes)
{
}

int findings_look(struct findings *findings, const char *dir, const char *session)
{
	static const struct store_check_ops ops = {.problem = handle_problem,
		.note = handle_note,
		.progress = handle_progress,
		.is_foreign = session_snapshot_is_foreign,
		.facts = &session_facts_ops};
	char *why = NULL;
	struct store_files files;
	struct store_check_counts counts;
	*findings = (struct findings){0};
	int r = store_files_open(dir, &files, &why);
	r = r < 0 ? r : tool_check_dir(&files, dir, session, &ops, findings, &counts);
	store_files_close(&files);
	free(why);
	return r;
}

void findings_finish(struct findings *findings)
{
	while (findings->count) {
		free(findings->lines[--findings->count]);
	}
	free(findings->lines);
	findings->lines = NULL;
}
