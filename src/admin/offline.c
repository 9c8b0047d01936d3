#include "offline.h"

#include "holdfast/diag.h"
#include "holdfast/store_database.h"
#include "holdfast/store_files.h"
#include "holdfast/store_kind.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- callbacks of sessions, which are ignored --- */

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
	const struct offline *opened = owner;
	diag(DIAG_ERROR, "the %s cannot be written: %s", opened->own_dir ? "database" : "journal",
		strerror(-error));
}

static void handle_store_revived(void *owner)
{
}

/* --- opening and closing --- */

/** Creates a temporary directory. Returns NULL after reporting the error. */
static char *make_own_dir(void)
{
	const char *tmp = getenv("TMPDIR");
	char *dir = xprintf("%s/holdfast-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(dir)) {
		diag(DIAG_ERROR, "cannot create a directory in TMPDIR or /tmp: %s",
			strerror(errno));
		free(dir);
		return NULL;
	}
	return dir;
}

/** Removes the temporary directory. A node keeps only files in it, no directories. */
static void remove_own_dir(char *dir)
{
	DIR *list = dir ? opendir(dir) : NULL;
	for (struct dirent *entry; list && (entry = readdir(list)) != NULL;) {
		unlinkat(dirfd(list), entry->d_name, 0);
	}
	if (list) {
		closedir(list);
	}
	if (dir) {
		rmdir(dir);
		free(dir);
	}
}

static int open_table(struct offline *opened, const struct store_place *place)
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
	int r = session_table_open(&(struct session_table_config){.loop = &opened->loop,
					   .limits = limits_default(),
					   .clock = &opened->clock,
					   .place = *place,
					   .ops = &ops,
					   .owner = opened},
		&opened->sessions, &why);
	if (r < 0) {
		diag(DIAG_ERROR, "%s", why ? why : strerror(-r));
	} else {
		server_reach(&opened->life, SERVER_SERVING);
	}
	free(why);
	return r;
}

static void begin(struct offline *opened)
{
	*opened = (struct offline){0};
	clock_init(&opened->clock);
	uv_loop_init(&opened->loop);
}

static int open_place(struct offline *opened, const char *place, const struct store_repair *repair,
	bool takes_older)
{
	const struct store_kind *kind = store_kind_of(place);
	char *why = NULL;
	begin(opened);
	if (kind && store_kind_find(place, &kind, &why) < 0) {
		diag(DIAG_ERROR, "%s", why);
		free(why);
		return -ENOTSUP;
	}
	opened->own_dir = kind ? make_own_dir() : NULL;
	if (kind && !opened->own_dir) {
		return -EIO;
	}
	return open_table(opened, &(struct store_place){.life = &opened->life,
					  .dir = kind ? opened->own_dir : place,
					  .repair = repair,
					  .takes_older = takes_older,
					  .durability = DURABILITY_FSYNC,
					  .engine = kind ? kind->engine : NULL,
					  .engine_arg = (void *)place});
}

int offline_open(struct offline *opened, const char *place, const struct store_repair *repair)
{
	return open_place(opened, place, repair, false);
}

int offline_open_older(struct offline *opened, const char *address)
{
	return open_place(opened, address, NULL, true);
}

int offline_rehearse(struct offline *opened, struct store_database *database)
{
	begin(opened);
	return open_table(opened, &(struct store_place){.life = &opened->life,
					  .engine = database->ops->rehearsal,
					  .engine_arg = database});
}

void offline_close(struct offline *opened)
{
	session_table_close(opened->sessions);
	uv_run(&opened->loop, UV_RUN_DEFAULT);
	uv_loop_close(&opened->loop);
	remove_own_dir(opened->own_dir);
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
