/*
 * The check of a whole data directory, for holdfast verify and others: what the store keeps
 * (store_check.h), and the files of other rooms.
 */
#include "admin.h"

#include "holdfast/access.h"
#include "holdfast/beneath.h"
#include "holdfast/line_file.h"
#include "holdfast/sealed_line.h"
#include "holdfast/store_check.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct checking {
	const struct store_check_ops *ops;
	void *owner;
	struct store_check_counts *counts;
};

static void tell(void *arg, bool is_problem, const char *file, const char *what)
{
	const struct checking *checking = arg;
	(is_problem ? checking->ops->problem : checking->ops->note)(checking->owner, file, what);
	checking->counts->problems += is_problem;
}

/** Whether a server takes this line of webhooks.jsonl. */
static bool is_cursor(const char *line, size_t len)
{
	size_t body;
	json_t *json = sealed_line_check(line, len, &body) ? json_loadb(line, len, 0, NULL) : NULL;
	bool is_one = json_is_string(json_object_get(json, "hook")) ||
		      json_is_string(json_object_get(json, "gone"));
	json_decref(json);
	return is_one;
}

/** A message that is sent twice is all that it can cost, so that it is no problem. */
static void check_webhooks(const char *dir, struct checking *checking)
{
	struct buffer bytes = {0};
	char *path = xprintf("%s/webhooks.jsonl", dir);
	int r = line_file_read(path, &bytes);
	const char *at = bytes.data;
	const char *end = at + bytes.len;
	const char *newline;
	size_t damaged = 0;
	while (r == 0 && at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
		damaged += !is_cursor(at, (size_t)(newline - at));
		at = newline + 1;
	}
	if (r < 0) {
		tell(checking, true, "webhooks.jsonl", file_error(-r));
	} else if (damaged) {
		char *what = xprintf(
			"%zu damaged lines are ignored; of the sessions that they name, messages may be sent twice, or not at all",
			damaged);
		tell(checking, false, "webhooks.jsonl", what);
		free(what);
	}
	buffer_finish(&bytes);
	free(path);
}

int tool_check_dir(const struct store_files *files, const char *dir, const char *session,
	const struct store_check_ops *ops, void *owner, struct store_check_counts *counts)
{
	int r = store_check(files, session, ops, owner, counts);
	struct checking checking = {ops, owner, counts};
	if (r == 0 && !session) {
		access_check_files(dir, tell, &checking);
		check_webhooks(dir, &checking);
	}
	return r;
}
