/* holdfast migrate: moves the sessions of a data directory to a database, or back. */
#include "admin.h"
#include "backup.h"
#include "migrate_access.h"
#include "offline.h"

#include "holdfast/diag.h"
#include "holdfast/session.h"
#include "holdfast/store_database.h"
#include "holdfast/store_kind.h"
#include "holdfast/store_migrate.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { WITHOUT_STREAMS, WITHOUT_WEBHOOKS, OPTION_COUNT };

static const struct option options[] = {
	[WITHOUT_STREAMS] = {"--without-streams", NULL, NULL, NULL,
		"leave raw streams (/v1/stream/) behind, which a database cannot hold"},
	[WITHOUT_WEBHOOKS] = {"--without-webhooks", NULL, NULL, NULL,
		"leave behind how far each webhook has got, which a database cannot hold"},
	{0},
};

static const struct command command = {
	.usage = "migrate DIR ADDRESS [OPTIONS], or migrate ADDRESS DIR",
	.help = "Moves the sessions of a data directory to a database (postgresql://USER@HOST/NAME or keywords of libpq, as\n"
		"for serve --store), or back, with their epochs, numbers, keys, images, files, and what is still open in them.\n"
		"Clients continue where they were. Secrets, tokens, logins and push subscriptions are moved too.\n\n"
		"Stop all servers on both sides first. Damaged sessions are refused: run holdfast repair first. The new side\n"
		"must be empty; no server can start on it before the move is complete. Each session is read back and compared.\n"
		"If the move is interrupted, run it again: it continues. The old side stays as it is; do not serve it again.\n\n"
		"Exit codes: 0 done, 1 the old side is damaged, 2 failed.\n",
	.options = options,
	.words_min = 2,
	.words_max = 2,
};

struct migration {
	const char *from;
	const char *to;
	const char *dir; /* whichever of the two is a directory */
	bool to_database;
	struct progress progress;
};

/* --- preconditions --- */

static int refuse_rest(const char *dir, const char *what, const char *option)
{
	diag(DIAG_ERROR,
		"%s has %s, which a database cannot hold: leave them behind with %s, or keep the directory",
		dir, what, option);
	return -EINVAL;
}

/** Whether the directory has raw streams: each has a file. */
static bool has_streams(const char *dir)
{
	char *path = xprintf("%s/streams/data", dir);
	DIR *streams = opendir(path);
	const struct dirent *entry;
	bool found = false;
	while (streams && !found && (entry = readdir(streams))) {
		found = entry->d_name[0] != '.';
	}
	if (streams) {
		closedir(streams);
	}
	free(path);
	return found;
}

static bool has_webhooks(const char *dir)
{
	struct stat st;
	char *path = xprintf("%s/webhooks.jsonl", dir);
	bool found = lstat(path, &st) == 0 && st.st_size > 0;
	free(path);
	return found;
}

static int check_rest(const char *dir, const char *const values[])
{
	if (!values[WITHOUT_STREAMS] && has_streams(dir)) {
		return refuse_rest(dir, "raw streams", options[WITHOUT_STREAMS].flag);
	}
	if (!values[WITHOUT_WEBHOOKS] && has_webhooks(dir)) {
		return refuse_rest(
			dir, "webhooks (webhooks.jsonl)", options[WITHOUT_WEBHOOKS].flag);
	}
	return 0;
}

/** Checks the old side. Returns the exit code, after reporting problems. */
static int check_files(const char *dir)
{
	char *why = NULL;
	struct store_files files;
	int code = TOOL_FAILED;
	if (store_files_open(dir, &files, &why) < 0) {
		diag(DIAG_ERROR, "%s", why);
	} else {
		store_files_hold(&files);
		if (files.in_use) {
			diag(DIAG_ERROR, "a server is at work in %s; stop it first", dir);
		} else {
			code = tool_verify_files(&files, dir, NULL);
		}
	}
	free(why);
	store_files_close(&files);
	return code;
}

static int check_database(const char *address)
{
	char *why = NULL;
	struct store_database *database;
	int code = TOOL_FAILED;
	if (store_database_open(address, &database, &why) == 0) {
		code = tool_verify_database(database, address, NULL);
	} else {
		diag(DIAG_ERROR, "%s", why);
	}
	free(why);
	store_database_close(database);
	return code;
}

static int check(const struct migration *migration)
{
	int code = migration->to_database ? check_files(migration->from)
					  : check_database(migration->from);
	if (code == 1) {
		diag(DIAG_ERROR, "%s is damaged, and stays as it is%s", migration->from,
			migration->to_database ? ": run holdfast repair first" : "");
	}
	return code;
}

static int recover(const char *place)
{
	struct offline opened;
	int r = offline_open(&opened, place, NULL);
	offline_close(&opened);
	return r;
}

/* --- the move --- */

static void handle_progress(void *owner, uint64_t bytes)
{
	struct migration *migration = owner;
	progress_add(&migration->progress, bytes);
}

static void handle_moved(void *owner, const char *id, uint64_t events, bool is_new)
{
	const struct migration *migration = owner;
	if (!migration->progress.is_shown) {
		diag_print("%s: %llu event%s, %s", id, (unsigned long long)events,
			events == 1 ? "" : "s", is_new ? "moved" : "there already");
		diag_flush();
	}
}

static int finish(const struct migration *migration, struct store_migrate *store, char **ret_why)
{
	const struct moving_side *database = store_migrate_database(store);
	int r = migration->to_database
			? migrate_access_up(database, migration->dir, ret_why)
			: migrate_access_down(database, store_migrate_dir(store), ret_why);
	if (r == 0 && !migration->to_database) {
		r = backup_sync(store_migrate_dir(store));
	}
	return r < 0 ? r : store_migrate_end(store, ret_why);
}

static void print_counts(const struct migration *migration, const struct store_migrate_counts *done)
{
	diag_print(
		"%s: %llu sessions with %llu events and %llu blobs, all read back; %llu of them were there already",
		migration->to, (unsigned long long)done->sessions, (unsigned long long)done->events,
		(unsigned long long)done->blobs, (unsigned long long)done->kept);
}

/** Moves the sessions. Reports an error, unless it is `may_fail`. */
static int run(struct migration *migration, int may_fail)
{
	char *why = NULL;
	struct store_migrate *store;
	struct store_migrate_counts done;
	const struct store_migrate_config config = {.dir = migration->dir,
		.address = migration->to_database ? migration->to : migration->from,
		.to_database = migration->to_database,
		.facts = &session_facts_ops,
		.progress = handle_progress,
		.moved = handle_moved,
		.owner = migration};
	int r = store_migrate_open(&config, &store, &why);
	if (r == 0) {
		progress_begin(&migration->progress, "B", store_migrate_size(store));
		r = store_migrate_run(store, &done, &why);
		progress_end(&migration->progress);
	}
	r = r < 0 ? r : finish(migration, store, &why);
	store_migrate_close(store);
	if (r < 0 && r != may_fail) {
		diag(DIAG_ERROR, "%s", why ? why : strerror(-r));
	} else if (r == 0) {
		print_counts(migration, &done);
	}
	free(why);
	return r;
}

/** Moves the sessions. If a crash left a journal to recover, first does that as a server would. */
static int migrate(struct migration *migration)
{
	int r = run(migration, -EAGAIN);
	if (r == -EAGAIN) {
		r = recover(migration->from);
		r = r < 0 ? r : run(migration, 0);
	}
	return r;
}

static int take_words(struct migration *migration, const char *const words[])
{
	const struct store_kind *kind;
	char *why = NULL;
	*migration = (struct migration){
		.from = words[0], .to = words[1], .to_database = store_kind_of(words[1])};
	migration->dir = migration->to_database ? words[0] : words[1];
	if ((store_kind_of(words[0]) != NULL) == migration->to_database) {
		diag(DIAG_ERROR,
			"one of the two must be a directory, and the other an address (postgresql://…); see holdfast migrate --help");
		return -EINVAL;
	}
	int r = store_kind_find(words[migration->to_database], &kind, &why);
	if (r < 0) {
		diag(DIAG_ERROR, "%s", why);
	}
	free(why);
	return r;
}

int tool_migrate(int argc, char **argv)
{
	const char *words[2] = {0};
	const char *values[OPTION_COUNT] = {0};
	struct migration migration;
	int r = options_parse(&command, argc, argv, words, values, NULL);
	if (r != 0) {
		return r < 0 ? TOOL_FAILED : 0;
	}
	umask(077);
	if (take_words(&migration, words) < 0 ||
		(migration.to_database && check_rest(migration.dir, values) < 0)) {
		return TOOL_FAILED;
	}
	int code = check(&migration);
	if (code == 0) {
		code = migrate(&migration) < 0 ? TOOL_FAILED : 0;
	}
	return code;
}
