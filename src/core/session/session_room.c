/*
 * Limits of all sessions together: their number, also per creator, the number of open blocks, and
 * disk space; and of one session, its number of names.
 */
#include "session_internal.h"

#include "holdfast/limits.h"

#include <stdlib.h>
#include <string.h>

/** The creator of sessions: the `sub` of a token. */
struct maker {
	size_t sessions;
};

/* --- sessions --- */

static struct maker *find_maker(const struct session_table *table, const char *sub)
{
	return sub && *sub ? hash_get(table->makers, sub, strlen(sub)) : NULL;
}

bool session_table_has_disk(const struct session_table *table)
{
	return !store_is_full(table->store);
}

void session_table_note_others(struct session_table *table, uint64_t bytes)
{
	store_note_others(table->store, bytes);
}

enum storage_kind session_table_storage(const struct session_table *table)
{
	return store_storage(table->store);
}

enum storage_kind session_storage(const struct session *session)
{
	return session_table_storage(session->table);
}

bool session_table_is_failing(const struct session_table *table)
{
	return store_is_failing(table->store);
}

enum limit session_room_for_another(const struct session_table *table, const char *sub)
{
	const struct maker *maker = find_maker(table, sub);
	if (!session_table_has_disk(table)) {
		return LIMIT_max_disk;
	}
	if (session_table_count(table) >= table->limits->sessions) {
		return LIMIT_sessions;
	}
	return maker && maker->sessions >= table->limits->sub_sessions ? LIMIT_sub_sessions
								       : LIMIT_NONE;
}

void session_room_count(struct session_log *log, void *arg)
{
	struct session_table *table = arg;
	const char *sub = session_facts(log)->made_by;
	if (!sub) {
		return;
	}
	struct maker *maker = find_maker(table, sub);
	if (!maker) {
		maker = xcalloc(1, sizeof(*maker));
		hash_put(table->makers, sub, strlen(sub), maker);
	}
	maker->sessions++;
}

void session_room_uncount(struct session_table *table, const struct session_log *log)
{
	const char *sub = session_facts(log)->made_by;
	struct maker *maker = find_maker(table, sub);
	if (maker && --maker->sessions == 0) {
		hash_remove(table->makers, sub, strlen(sub));
		free(maker);
	}
}

static void free_maker(void *maker, void *arg)
{
	free(maker);
}

void session_room_finish(struct session_table *table)
{
	hash_each(table->makers, free_maker, NULL);
	hash_destroy(table->makers);
}

/* --- open blocks --- */

void session_room_note_open(struct session *session, bool is_open)
{
	if (session->has_open != is_open) {
		session->has_open = is_open;
		session->table->open_blocks += is_open ? 1 : (size_t)-1;
	}
}

bool session_has_room_for_block(const struct session *session)
{
	const struct session_table *table = session->table;
	return session->has_open || table->open_blocks < table->limits->open_blocks;
}

/* --- names --- */

bool session_has_room_for_names(const struct session *session)
{
	return session->state.facts.input_names < session->table->limits->names;
}
