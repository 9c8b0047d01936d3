/*
 * holdfast repair: restores what can be read of damaged sessions (src/store/repair.h), and gives
 * each of them a new epoch.
 */
#include "offline.h"
#include "tools_internal.h"

#include "holdfast/diag.h"
#include "holdfast/session.h"
#include "holdfast/store_files.h"
#include "holdfast/store_set_aside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command command = {
	.usage = "repair DIR [SESSION]",
	.help = "Repairs damaged sessions, one or all, also those that the server has moved to set-aside/. An event whose\n"
		"line is damaged is taken from the journal if that has it. In place of any other the log gets an event of\n"
		"the type x-holdfast-gap, with the same number. The session gets a new epoch, so that clients load it again.\n"
		"An image or file whose bytes are damaged is moved to set-aside/: nobody gets it before, either.\n"
		"The damaged files stay in set-aside/; remove them when you do not need them any more.\n\n"
		"Stop the server first. If repair is interrupted, run it again. It prints a line for each session that was\n"
		"damaged: id, what was wrong, how many events are lost, how many the journal had, the new epoch.\n\n"
		"Exit codes: 0 nothing was damaged, or nothing is lost; 1 events or images are lost; 2 failed.\n",
	.words_min = 1,
	.words_max = 2,
};

struct repair {
	struct session_table *sessions;
	const char *only; /* NULL: all */
	char **ids; /* of those that get a new epoch */
	size_t count;
	bool is_known; /* `only` exists */
	uint64_t lost;
	uint64_t moved; /* images and files */
};

static void pick(const struct session_object *object, void *arg)
{
	struct repair *repair = arg;
	struct store_repaired damage;
	bool is_meant = !repair->only || strcmp(repair->only, object->id) == 0;
	repair->is_known = repair->is_known || is_meant;
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
		repair->lost += damage.lost;
		diag_print("%s: %s; %" PRIu64 " lost, %" PRIu64
			   " from the journal; new epoch %016" PRIx64,
			id, damage.why, damage.lost, damage.found, epoch);
		fflush(stdout);
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
	repair->moved++;
	diag_print("%s is damaged, and was moved to %s", what, to);
	fflush(stdout);
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

static int repair_opened(
	struct session_table *sessions, const char *dir, const char *only, uint64_t *ret_lost)
{
	struct repair repair = {.sessions = sessions, .only = only};
	session_table_each_object(sessions, pick, &repair);
	if (only && !repair.is_known) {
		diag(DIAG_ERROR, "there is no session %s", only);
		return -ENOENT;
	}
	bool any = repair.count;
	int r = repair_all(&repair);
	r = r < 0 ? r : set_aside(&repair, dir);
	if (r == 0 && !any && !repair.moved) {
		printf("nothing is damaged\n");
	}
	*ret_lost = repair.lost + repair.moved;
	return r;
}

int tool_repair(int argc, char **argv)
{
	const char *words[2] = {0};
	struct offline opened;
	uint64_t lost = 0;
	int r = options_parse(&command, argc, argv, words, NULL, NULL);
	if (r != 0) {
		return r < 0 ? TOOL_FAILED : 0;
	}
	if (offline_check_dir(words[0]) < 0) {
		return TOOL_FAILED;
	}
	const struct store_repair how = {.only = words[1]};
	r = offline_open(&opened, words[0], &how);
	if (r == 0) {
		r = repair_opened(opened.sessions, words[0], words[1], &lost);
	}
	offline_close(&opened);
	if (r < 0) {
		return TOOL_FAILED;
	}
	/* Open it once more: the journal then begins anew, without what the repair took from it. */
	r = offline_open(&opened, words[0], NULL);
	offline_close(&opened);
	return r < 0 ? TOOL_FAILED : lost ? 1 : 0;
}
