/*
 * holdfast repair: restores what can be read of damaged sessions (src/core/store/embedded/repair.h), and gives
 * each of them a new epoch.
 */
#include "admin.h"
#include "offline.h"

#include "holdfast/diag.h"
#include "holdfast/session.h"
#include "holdfast/store_files.h"
#include "holdfast/store_set_aside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORGET_KEYS, OPTION_COUNT };

static const struct option options[] = {
	[FORGET_KEYS] = {"--forget-keys", NULL, NULL, NULL,
		"give up keys, runs and ids of messages that are lost: what is sent again with one of them is stored twice"},
	{0},
};

static const struct command command = {
	.usage = "repair DIR [SESSION] [--forget-keys]",
	.help = "Repairs damaged sessions, one or all, also those that the server has moved to set-aside/. An event whose\n"
		"line is damaged is taken from the journal if that has it. In place of any other the log gets an event of\n"
		"the type x-holdfast-gap, with the same number. The session gets a new epoch, so that clients load it again.\n"
		"An image or file whose bytes are damaged is moved to set-aside/, a damaged raw stream to\n"
		"streams/set-aside/: nobody gets them before, either.\n"
		"Keys and runs of producers that are lost with lines of keys.jsonl are taken from the journal if that has them.\n"
		"If it has not, appends with a key that is not found stay refused (keys_damaged) until --forget-keys gives the\n"
		"lost ones up; the log then says so.\n\n"
		"The damaged files stay in set-aside/; remove them when you do not need them any more.\n\n"
		"Stop the server first. If repair is interrupted, run it again. It prints a line for each session that was\n"
		"damaged: id, what was wrong, how many events are lost, how many the journal had, the new epoch.\n\n"
		"Where records of the journal cannot be used, what they said is lost unless the log has it: keys may be, too.\n\n"
		"Exit codes: 0 nothing was damaged, or nothing is lost; 1 events, records, keys, images or streams are lost;\n"
		"2 failed.\n",
	.options = options,
	.words_min = 1,
	.words_max = 2,
};

struct repair {
	struct session_table *sessions;
	const char *only; /* NULL: all */
	char **ids; /* of those that get a new epoch */
	size_t count;
	char **all; /* those that the repair is for */
	size_t all_count;
	bool forgets_keys;
	uint64_t told; /* lines that were printed */
	uint64_t lost; /* events, keys, images and files */
};

static void pick(const struct session_object *object, void *arg)
{
	struct repair *repair = arg;
	struct store_repaired damage;
	bool is_meant = !repair->only || strcmp(repair->only, object->id) == 0;
	if (is_meant) {
		repair->all = xrealloc(repair->all, (repair->all_count + 1) * sizeof(*repair->all));
		repair->all[repair->all_count++] = xstrdup(object->id);
	}
	if (is_meant && session_table_get_repair(repair->sessions, object->id, &damage)) {
		repair->ids = xrealloc(repair->ids, (repair->count + 1) * sizeof(*repair->ids));
		repair->ids[repair->count++] = xstrdup(object->id);
	}
}

static int compare_ids(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void tell(struct repair *repair, const char *id, uint64_t epoch)
{
	struct store_repaired damage;
	if (session_table_get_repair(repair->sessions, id, &damage)) {
		repair->lost += damage.lost + damage.unused;
		repair->told++;
		char unused[64] = "";
		if (damage.unused) {
			snprintf(unused, sizeof(unused), " (%" PRIu64 " cannot be used)",
				damage.unused);
		}
		diag_print("%s: %s%s; %" PRIu64 " lost, %" PRIu64
			   " from the journal; new epoch %016" PRIx64,
			id, damage.why, unused, damage.lost, damage.found, epoch);
		diag_flush();
	}
}

static int repair_one(struct repair *repair, const char *id)
{
	uint64_t old;
	uint64_t fresh;
	struct session *session = session_table_get(repair->sessions, id, strlen(id));
	int r = session ? session_change_epoch(session, &old, &fresh) : -ENOENT;
	if (r == 0) {
		tell(repair, id, fresh);
	} else {
		diag(DIAG_ERROR,
			"session %s cannot be repaired: %s. Run this again when it can be written",
			id, strerror(-r));
	}
	return r;
}

static int repair_all(struct repair *repair)
{
	struct progress progress;
	int r = 0;
	if (repair->count) {
		qsort(repair->ids, repair->count, sizeof(*repair->ids), compare_ids);
	}
	progress_begin(&progress, "sessions", repair->count);
	for (size_t i = 0; i < repair->count && r == 0; i++) {
		progress_hide(&progress);
		r = repair_one(repair, repair->ids[i]);
		progress_add(&progress, 1);
	}
	progress_end(&progress);
	while (repair->count) {
		free(repair->ids[--repair->count]);
	}
	free(repair->ids);
	return r;
}

static void tell_moved(void *owner, const char *what, const char *to)
{
	struct repair *repair = owner;
	repair->lost++;
	repair->told++;
	diag_print("%s is damaged, and was moved to %s", what, to);
	diag_flush();
}

static int set_aside(struct repair *repair, const char *dir)
{
	char *why = NULL;
	int r = store_set_aside(dir, repair->only, tell_moved, repair, &why);
	if (r < 0) {
		diag(DIAG_ERROR, "%s", why ? why : strerror(-r));
	}
	free(why);
	return r;
}

static void tell_names(struct repair *repair, const char *id, const struct names_repaired *names)
{
	if (!names->is_remade && !names->recovered && !names->missing) {
		return;
	}
	diag_print("%s: names %s; %" PRIu64 " lost, %" PRIu64 " from the journal%s", id,
		names->doubtful ? "may have been in records that cannot be used" : "were damaged",
		names->missing, names->recovered,
		!names->missing        ? ""
		: repair->forgets_keys ? "; the lost ones are given up"
				       : "; --forget-keys gives the lost ones up");
	diag_flush();
	repair->lost += names->missing;
	repair->told++;
}

/** Once the events are in order: ids of messages are taken from them. */
static int repair_names(struct repair *repair)
{
	int r = 0;
	if (repair->all_count) {
		qsort(repair->all, repair->all_count, sizeof(*repair->all), compare_ids);
	}
	for (size_t i = 0; i < repair->all_count && r == 0; i++) {
		const char *id = repair->all[i];
		struct names_repaired names;
		struct session *session = session_table_get(repair->sessions, id, strlen(id));
		r = session ? session_repair_names(session, repair->forgets_keys, &names) : 0;
		if (r < 0) {
			diag(DIAG_ERROR, "session %s: its names cannot be repaired: %s", id,
				strerror(-r));
		} else if (session) {
			tell_names(repair, id, &names);
		}
	}
	return r;
}

static int repair_opened(struct repair *repair, const char *dir)
{
	session_table_each_object(repair->sessions, pick, repair);
	if (repair->only && !repair->all_count) {
		diag(DIAG_ERROR, "there is no session %s", repair->only);
		return -ENOENT;
	}
	int r = repair_all(repair);
	r = r < 0 ? r : repair_names(repair);
	r = r < 0 ? r : set_aside(repair, dir);
	while (repair->all_count) {
		free(repair->all[--repair->all_count]);
	}
	free(repair->all);
	return r;
}

/**
 * Tells what was put in order besides the sessions above (indexes, the end of the journal), and what
 * is still damaged: the same check says it that verify makes.
 */
static void tell_rest(struct repair *repair, const struct findings *before, const char *dir)
{
	struct findings left;
	if (findings_look(&left, dir, repair->only) < 0) {
		left.count = 0;
	}
	if (!repair->told && !before->count && !left.count) {
		diag_print_text("nothing is damaged\n");
	}
	for (size_t i = 0; !repair->told && !left.count && i < before->count; i++) {
		diag_print("%s: this was put in order", before->lines[i]);
	}
	for (size_t i = 0; i < left.count; i++) {
		diag(DIAG_ERROR, "%s: this is still damaged", left.lines[i]);
	}
	diag_flush();
	repair->lost += left.count;
	findings_finish(&left);
}

int tool_repair(int argc, char **argv)
{
	const char *words[2] = {0};
	struct offline opened;
	const char *values[OPTION_COUNT] = {0};
	int r = options_parse(&command, argc, argv, words, values, NULL);
	if (r != 0) {
		return r < 0 ? TOOL_FAILED : 0;
	}
	if (offline_check_dir(words[0]) < 0) {
		return TOOL_FAILED;
	}
	const struct store_repair how = {.only = words[1]};
	struct repair repair = {.only = words[1], .forgets_keys = values[FORGET_KEYS] != NULL};
	struct findings before;
	findings_look(&before, words[0], words[1]);
	r = offline_open(&opened, words[0], &how);
	if (r == 0) {
		repair.sessions = opened.sessions;
		r = repair_opened(&repair, words[0]);
	}
	offline_close(&opened);
	if (r == 0) {
		/* The journal then begins anew, without what the repair took from it. */
		r = offline_open(&opened, words[0], NULL);
		offline_close(&opened);
	}
	if (r == 0) {
		tell_rest(&repair, &before, words[0]);
	}
	findings_finish(&before);
	return r < 0 ? TOOL_FAILED : repair.lost ? 1 : 0;
}
