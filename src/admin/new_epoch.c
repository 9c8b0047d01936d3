/*
 * holdfast new-epoch: gives sessions new epochs. After a restore from an older copy, the server may
 * give numbers that clients have seen to other events; a new epoch makes clients start over.
 */
#include "admin.h"
#include "offline.h"

#include "holdfast/diag.h"
#include "holdfast/session.h"
#include "holdfast/store_kind.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command command = {
	.usage = "new-epoch DIR|ADDRESS [SESSION]",
	.help = "Gives a session, or all sessions, a new epoch. Run it after you have restored a data directory from an\n"
		"older copy, before you start the server: clients that have seen more than the copy contains then start\n"
		"over, and do not mistake new events for old ones.\n\n"
		"ADDRESS is that of a database, as for serve --store: postgresql://USER@HOST/NAME, or keywords of libpq.\n"
		"Run it there after a restore, and after a standby was promoted that may have lacked the newest\n"
		"commits. Servers refuse such a database until then.\n\n"
		"Stop the server first, and with a database all of its nodes. new-epoch recovers what is in the journal, as\n"
		"the server does when it starts. If it is interrupted, run it again. It prints a line for each session: id,\n"
		"old epoch, new epoch.\n\n"
		"Exit codes: 0 done, 2 failed.\n",
	.words_min = 1,
	.words_max = 2,
};

/* --- changing epochs --- */

struct picked {
	const char *only; /* NULL: all */
	bool tells;
	char **ids;
	size_t count;
};

static void pick(const struct session_object *object, void *arg)
{
	struct picked *picked = arg;
	if (picked->only && strcmp(picked->only, object->id) != 0) {
		return;
	}
	picked->ids = xrealloc(picked->ids, (picked->count + 1) * sizeof(*picked->ids));
	picked->ids[picked->count++] = xstrdup(object->id);
}

static int compare_ids(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int change_one(struct session_table *sessions, const char *id, bool tells)
{
	uint64_t old;
	uint64_t fresh;
	struct session *session = session_table_get(sessions, id, strlen(id));
	int r = session ? session_change_epoch(session, &old, &fresh) : -ENOENT;
	if (r == 0 && tells) {
		diag_print("%s %016" PRIx64 " %016" PRIx64, id, old, fresh);
	} else if (r < 0) {
		diag(DIAG_ERROR,
			"session %s keeps its epoch: %s. Those above have new ones; run this again when it can be written",
			id, strerror(-r));
	}
	return r;
}

static int change_all(struct session_table *sessions, const struct picked *picked)
{
	struct progress progress;
	int r = 0;
	progress_begin(&progress, "sessions", picked->count);
	for (size_t i = 0; i < picked->count && r == 0; i++) {
		progress_hide(&progress);
		r = change_one(sessions, picked->ids[i], picked->tells);
		progress_add(&progress, 1);
	}
	progress_end(&progress);
	return r;
}

static int change(struct session_table *sessions, const char *only, bool tells)
{
	struct picked picked = {.only = only, .tells = tells};
	session_table_each_object(sessions, pick, &picked);
	if (only && !picked.count) {
		diag(DIAG_ERROR, "there is no session %s", only);
		return -ENOENT;
	}
	if (picked.count) {
		qsort(picked.ids, picked.count, sizeof(*picked.ids), compare_ids);
	}
	int r = change_all(sessions, &picked);
	while (picked.count) {
		free(picked.ids[--picked.count]);
	}
	free(picked.ids);
	return r;
}

int tool_give_epochs(const char *dir, const char *only, bool tells)
{
	struct offline opened;
	bool is_database = store_kind_of(dir);
	int r = is_database ? offline_open_older(&opened, dir) : offline_open(&opened, dir, NULL);
	if (r == 0) {
		r = change(opened.sessions, only, tells);
	}
	offline_close(&opened);
	if (r < 0 || is_database) {
		return r;
	}
	/* Open it once more: the journal then has a new segment, without records of old epochs. */
	r = offline_open(&opened, dir, NULL);
	offline_close(&opened);
	return r;
}

int tool_new_epoch(int argc, char **argv)
{
	const char *words[2] = {0};
	int r = options_parse(&command, argc, argv, words, NULL, NULL);
	if (r != 0) {
		return r < 0 ? TOOL_FAILED : 0;
	}
	if (!store_kind_of(words[0]) && offline_check_dir(words[0]) < 0) {
		return TOOL_FAILED;
	}
	return tool_give_epochs(words[0], words[1], true) < 0 ? TOOL_FAILED : 0;
}
