#include "offline.h"

#include "holdfast/diag.h"
#include "holdfast/store_files.h"

#include <stdlib.h>
#include <string.h>

/* --- what sessions tell, to nobody --- */

static void handle_prompt_due(void *owner, struct session *session, uint64_t seq,
	const char *message, size_t len, const struct json_t *content)
{
}

static void handle_answered(
	void *owner, struct session *session, const char *request_id, const char *option_id)
{
}

static void handle_session(void *owner, struct session *session)
{
}

static void handle_store_failed(void *owner, int error)
{
	diag(DIAG_ERROR, "the journal cannot be written: %s", strerror(-error));
}

static void handle_store_revived(void *owner)
{
}

/* --- the data directory, opened as the server does it --- */

int offline_open(struct offline *opened, const char *dir, const struct store_repair *repair)
{
	static const struct session_ops ops = {
		.prompt_due = handle_prompt_due,
		.answered = handle_answered,
		.changed = handle_session,
		.deleted = handle_session,
		.store_failed = handle_store_failed,
		.store_revived = handle_store_revived,
		.returned = handle_session,
	};
	char *why = NULL;
	*opened = (struct offline){0};
	clock_init(&opened->clock);
	uv_loop_init(&opened->loop);
	int r = session_table_open(
		&(struct session_table_config){.loop = &opened->loop,
			.limits = limits_default(),
			.clock = &opened->clock,
			.place = {.dir = dir, .repair = repair, .durability = DURABILITY_FSYNC},
			.ops = &ops,
			.owner = opened},
		&opened->sessions, &why);
	if (r < 0) {
		diag(DIAG_ERROR, "%s", why ? why : strerror(-r));
	}
	free(why);
	return r;
}

void offline_close(struct offline *opened)
{
	session_table_close(opened->sessions);
	uv_run(&opened->loop, UV_RUN_DEFAULT);
	uv_loop_close(&opened->loop);
}

int offline_check_dir(const char *dir)
{
	char *why = NULL;
	struct store_files files;
	int r = store_files_open(dir, &files, &why);
	store_files_close(&files);
	if (r < 0) {
		diag(DIAG_ERROR, "%s", why);
	}
	free(why);
	return r;
}
