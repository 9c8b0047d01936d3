/*
 * The names of a log: ids by which prompts, answers to permission requests and inputs are found for
 * as long as the log exists. An engine keeps their lines, and reads them as a whole before the first
 * lookup.
 */
#include "store_internal.h"

#include "holdfast/diag.h"
#include "holdfast/json_text.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names that a running server has replayed wait for the others up to this many bytes. */
#define REPLAYED_MAX ((size_t)1 << 20)

void log_keys_rest(struct log_keys *keys)
{
	name_table_finish(&keys->names);
	buffer_finish(&keys->found);
}

static void end_waits(struct log_keys *keys)
{
	struct list due;
	list_init(&due);
	list_move_all(&due, &keys->waits);
	while (!list_empty(&due)) {
		struct names_wait *wait = list_entry(due.next, struct names_wait, link);
		list_remove(&wait->link);
		wait->done(wait);
	}
}

void log_keys_finish(struct log_keys *keys)
{
	end_waits(keys);
	log_keys_rest(keys);
	buffer_finish(&keys->replayed);
	buffer_finish(&keys->unwritten);
}

/* --- lines --- */

void log_keys_add(void *arg, const struct log_name *name)
{
	struct session_log *log = arg;
	struct log_keys *keys = &log->keys;
	struct raw_name raw;
	name_line_append(&keys->unwritten, log->store->ops->facts->name_kinds, name, &raw);
	if (keys->names.slots) {
		name_table_put(&keys->names, &raw);
	}
	log->dirty = true;
}

/**
 * A replay of the journal gives a name that the log should have already. If lines of names are lost,
 * it may be one of them.
 */
static void recover_name(struct session_log *log, const struct log_name *name)
{
	struct log_key had;
	struct raw_name raw;
	if (!log->store->opening && !log->keys.names.slots) {
		if (log->keys.replayed.len < REPLAYED_MAX) { /* else it is refused, if it is lost */
			name_line_append(&log->keys.replayed, log->store->ops->facts->name_kinds,
				name, &raw);
		}
		return;
	}
	if (session_log_find_key(log, name->kind, name->key, &had) != 0 ||
		!log->keys.names.missing) {
		return;
	}
	log->keys.names.missing--;
	log->keys.recovered++;
	log_keys_add(log, name);
}

/** The same once the names are in memory, for those that were replayed before. */
static void recover_replayed(struct session_log *log)
{
	struct log_keys *keys = &log->keys;
	const char *at = keys->replayed.data;
	const char *end = at + keys->replayed.len;
	while (at < end && keys->names.missing) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		struct raw_name raw;
		int r = log_name_scan(log->store->ops->facts, at, (size_t)(newline - at), &raw);
		assert(r == 0); /* this program made the line */
		if (!name_table_get(&keys->names, raw.kind, raw.key, raw.key_len)) {
			name_table_put(&keys->names, &raw);
			buffer_append(&keys->unwritten, at, (size_t)(newline + 1 - at));
			keys->names.missing--;
			keys->recovered++;
			log->dirty = true;
		}
		at = newline + 1;
	}
	buffer_finish(&keys->replayed);
}

void log_keys_note_replayed(struct session_log *log, uint64_t seq)
{
	log->keys.known_to = seq > log->keys.known_to ? seq : log->keys.known_to;
}

bool log_keys_doubt(struct session_log *log)
{
	struct log_keys *keys = &log->keys;
	if (log->last_seq <= keys->known_to) {
		return false;
	}
	keys->doubtful = log->last_seq - keys->known_to;
	keys->known_to = log->last_seq;
	keys->input_names += keys->doubtful;
	keys->names.missing += keys->names.slots ? keys->doubtful : 0;
	log->dirty = true;
	return true;
}

void log_keys_add_input(struct session_log *log, uint64_t nth, const struct log_name *name)
{
	if (nth < log->keys.input_names) {
		recover_name(log, name);
		return;
	}
	log->keys.input_names = nth + 1;
	log_keys_add(log, name);
}

uint64_t session_log_input_names(const struct session_log *log)
{
	return log->keys.input_names;
}

/* --- loading --- */

void log_keys_tell_missing(struct session_log *log)
{
	uint64_t missing = log->keys.names.missing;
	if (missing && !log->keys.is_told && !log->store->opening) {
		log->keys.is_told = true;
		store_add_damaged(log->store, 1);
		diag(DIAG_ERROR,
			"session %s: %llu keys, runs or ids that inputs gave are lost; appends with a key or run that is not found are refused until holdfast repair",
			log->id, (unsigned long long)missing);
	}
}

/**
 * Loads the names if the caller has not waited for them, as recovery, tools and tests do not; this
 * blocks. After a failure on the thread pool, it is not retried before session_log_load_names().
 */
static int need_names(struct session_log *log)
{
	const struct log_keys *keys = &log->keys;
	return keys->names.slots ? 0
	       : keys->job       ? -EBUSY
	       : keys->error     ? keys->error
				 : log->store->engine->load_names(log, true);
}

uint64_t session_log_forget_names(struct session_log *log)
{
	const struct store_facts *facts = log->store->ops->facts;
	uint64_t missing = log->keys.names.missing;
	char count[24];
	unsigned kind = 1;
	while (!facts->name_kinds[kind].is_count) {
		kind++;
	}
	snprintf(count, sizeof(count), "%llu", (unsigned long long)missing);
	if (missing) {
		log_keys_add(log, &(struct log_name){.kind = kind, .key = count, .by = ""});
		log->keys.names.missing = 0;
	}
	return missing;
}

void session_log_get_names_repair(struct session_log *log, struct names_repaired *ret)
{
	*ret = (struct names_repaired){.status = need_names(log)};
	ret->is_remade = log->keys.is_remade;
	ret->recovered = log->keys.recovered;
	ret->missing = log->keys.names.missing;
	ret->doubtful = log->keys.doubtful;
}

bool session_log_lacks_names(const struct session_log *log)
{
	return log->keys.names.missing > 0;
}

void log_keys_loaded(struct session_log *log, struct name_table *names, int status)
{
	struct log_keys *keys = &log->keys;
	keys->error = status;
	if (status == 0) {
		log_keys_rest(keys);
		keys->names = *names;
		*names = (struct name_table){0};
		int r = name_lines_take(log->store->ops->facts, &keys->names, keys->unwritten.data,
			keys->unwritten.len);
		assert(r == 0); /* this program made these lines */
		recover_replayed(log);
		log_keys_tell_missing(log);
	} else {
		diag(DIAG_ERROR, "session %s: the names cannot be read: %s", log->id,
			strerror(-status));
	}
	end_waits(keys);
}

bool session_log_has_names(const struct session_log *log)
{
	return log->keys.names.slots || (!log->keys.job && !log->keys.size);
}

void session_log_load_names(struct session_log *log, struct names_wait *wait)
{
	struct log_keys *keys = &log->keys;
	/* Who waits already has them loaded, or they are once nothing else uses their file. */
	bool is_first = wait && list_empty(&keys->waits);
	if (wait) {
		list_append(&keys->waits, &wait->link);
	}
	if (session_log_has_names(log)) {
		end_waits(keys);
	} else if (log->store->opening || is_first) {
		log->store->engine->load_names(log, log->store->opening);
	}
}

void names_wait_cancel(struct names_wait *wait)
{
	if (wait->link.next) {
		list_remove(&wait->link);
	}
}

/* --- lookups --- */

/** The value of a JSON string in the table, in the buffer `found`. */
static const char *unescape(struct buffer *found, const char *string)
{
	json_t *json = json_read(string, strlen(string), JSON_DECODE_ANY, NULL, NULL);
	buffer_clear(found);
	buffer_append_str(found, json ? json_string_value(json) : "");
	json_decref(json);
	return buffer_cstr(found);
}

int session_log_find_key(
	struct session_log *log, unsigned kind, const char *key, struct log_key *ret_key)
{
	struct log_keys *keys = &log->keys;
	struct buffer escaped = {0};
	int r = need_names(log);
	if (r < 0) {
		return r;
	}
	buffer_append_json(&escaped, key, strlen(key));
	const struct name_slot *slot =
		name_table_get(&keys->names, kind, escaped.data + 1, escaped.len - 2);
	buffer_finish(&escaped);
	if (slot) {
		bool has_by = keys->names.kinds[kind].has_by;
		*ret_key = (struct log_key){.seq = slot->seq,
			.by = has_by ? unescape(&keys->found, keys->names.by.data + slot->value)
				     : "",
			.sum = {.value = has_by ? 0 : slot->value, .rule = slot->rule}};
	}
	return slot != NULL;
}

int session_log_each_listed(
	struct session_log *log, void (*visit)(void *arg, const char *key), void *arg)
{
	int r = need_names(log);
	const struct buffer *listed = &log->keys.names.listed;
	for (size_t at = 0; r == 0 && at < listed->len;) {
		const char *key = listed->data + at;
		visit(arg, unescape(&log->keys.found, key));
		at += strlen(key) + 1;
	}
	return r;
}
