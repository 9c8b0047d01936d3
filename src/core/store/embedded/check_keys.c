/*
 * Checks the names of a session: those in the certain part of keys.jsonl that can be derived from
 * events must match the log's events, in the same order. Both files are read once, side by side.
 */
#include "check.h"

#include "holdfast/beneath.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void file_place(const struct keys_check *keys, char place[256])
{
	snprintf(place, 256, keys->check->files ? "sessions/%s/keys.jsonl" : "session %s, names",
		keys->id);
}

/** Reports a problem after which the file cannot be read on. */
__attribute__((format(printf, 2, 3))) static void give_up(
	struct keys_check *keys, const char *fmt, ...)
{
	char place[256];
	char what[200];
	va_list args;
	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	file_place(keys, place);
	check_problem(keys->check, place, "%s", what);
	keys->is_over = keys->is_damaged = true;
}

static void tell_line(struct keys_check *keys, size_t len)
{
	char file[256];
	char place[320];
	file_place(keys, file);
	snprintf(place, sizeof(place), "%s: line %llu, byte %llu", file,
		(unsigned long long)keys->lines.number,
		(unsigned long long)(keys->lines.offset - len - 1));
	check_problem(keys->check, place, "the checksum is wrong, or it is not a name");
	keys->is_damaged = true;
}

/** Notes a wrong name. It is reported at the end, if the log is good. */
__attribute__((format(printf, 2, 3))) static void note_wrong(
	struct keys_check *keys, const char *fmt, ...)
{
	if (!keys->wrong++) {
		va_list args;
		va_start(args, fmt);
		vsnprintf(keys->first, sizeof(keys->first), fmt, args);
		va_end(args);
	}
}

/** Reads the next line of the certain part. */
static bool next_line(struct keys_check *keys, const char **ret_line, size_t *ret_len)
{
	if (keys->is_over || keys->lines.offset >= keys->meta->keys_size) {
		keys->is_over = true;
		return false;
	}
	int found = log_lines_next(&keys->lines, ret_line, ret_len);
	if (found < 0) {
		give_up(keys, "byte %llu: %s", (unsigned long long)keys->lines.offset,
			found == -EMSGSIZE ? "a line longer than any name" : file_error(-found));
	} else if (found == 0 || keys->lines.offset > keys->meta->keys_size) {
		give_up(keys, "no line ends at byte %llu, contrary to metadata.json",
			(unsigned long long)keys->meta->keys_size);
	}
	return !keys->is_over;
}

static void count_name(struct keys_check *keys, const char *line, size_t len)
{
	struct raw_name raw;
	const struct store_facts *facts = keys->check->ops->facts;
	if (log_name_scan(facts, line, len, &raw) == 0 && raw.kind) {
		if (!keys->names.slots) {
			name_table_begin(&keys->names, facts->name_kinds, 0);
		}
		name_table_put(&keys->names, &raw);
	}
}

/**
 * Goes on to the next name that can be compared: one that is derived from an event, of a known
 * kind, and whose event is not pruned.
 */
static void next_name(struct keys_check *keys)
{
	const char *line;
	size_t len;
	const struct store_facts *facts = keys->check->ops->facts;
	while (next_line(keys, &line, &len)) {
		json_decref(keys->json);
		if (log_name_parse(facts, line, len, &keys->next, &keys->json) < 0) {
			tell_line(keys, len);
			continue;
		}
		count_name(keys, line, len);
		if (facts->name_kinds[keys->next.kind].is_of_event &&
			keys->next.seq >= keys->meta->first_seq) {
			return;
		}
	}
}

static void skip_name(struct keys_check *keys)
{
	note_wrong(keys,
		"line %llu names event %llu, which has no name of its own, or had it before",
		(unsigned long long)keys->lines.number, (unsigned long long)keys->next.seq);
	next_name(keys);
}

void check_keys_begin(struct keys_check *keys, struct check *check, const char *id,
	const struct store_metadata *meta)
{
	char path[192];
	*keys = (struct keys_check){.check = check, .id = id, .meta = meta, .lines = {.fd = -1}};
	keys->is_over = !meta || !meta->keys_size || !check->ops->facts;
	if (keys->is_over) {
		return;
	}
	int r = log_lines_open_file(check->files, id, "keys.jsonl", &keys->lines);
	snprintf(path, sizeof(path), "%s/keys.jsonl", id);
	uint64_t size = store_files_size(check->files->sessions_fd, path);
	if (r < 0 && r != -ENOENT) {
		give_up(keys, "%s", file_error(-r));
	} else if (size < meta->keys_size) {
		give_up(keys, "it has %llu bytes; metadata.json says that %llu are certain",
			(unsigned long long)size, (unsigned long long)meta->keys_size);
	}
	next_name(keys);
}

void check_keys_begin_fd(struct keys_check *keys, struct check *check, const char *id,
	const struct store_metadata *meta, int fd)
{
	*keys = (struct keys_check){.check = check, .id = id, .meta = meta, .lines = {.fd = fd}};
	keys->is_over = !meta->keys_size || !check->ops->facts;
	if (!keys->is_over) {
		log_lines_begin(&keys->lines, fd, 0, UINT64_MAX);
		next_name(keys);
	}
}

static bool is_same(const struct log_name *a, const struct log_name *b)
{
	return a->kind == b->kind && strcmp(a->key, b->key) == 0 && strcmp(a->by, b->by) == 0;
}

static void see_name(void *arg, const struct log_name *name)
{
	struct keys_check *keys = arg;
	while (!keys->is_over && keys->next.seq < name->seq) {
		skip_name(keys);
	}
	if (keys->is_over || keys->next.seq > name->seq) {
		note_wrong(
			keys, "the name of event %llu is missing", (unsigned long long)name->seq);
		return;
	}
	if (!is_same(&keys->next, name)) {
		note_wrong(keys, "line %llu is not the name of event %llu",
			(unsigned long long)keys->lines.number, (unsigned long long)name->seq);
	}
	next_name(keys);
}

void check_keys_event(struct keys_check *keys, const struct event_view *view)
{
	const struct store_facts *facts = keys->check->ops->facts;
	while (event_is_gap(view) && !keys->is_over && keys->next.seq <= view->seq) {
		if (keys->next.seq < view->seq) {
			skip_name(keys);
		} else {
			next_name(keys); /* the lost event's name */
		}
	}
	if (facts && keys->meta && view->seq >= keys->meta->first_seq &&
		view->seq <= keys->meta->max_seq) {
		facts->names_of(view, false, see_name, keys);
	}
}

/** A repair says how many names it has given up. Any others that are missing are a problem. */
static void tell_lost(struct keys_check *keys)
{
	char place[256];
	uint64_t had = keys->meta && keys->check->ops->facts ? keys->meta->input_names : 0;
	file_place(keys, place);
	if (had > keys->names.inputs && !keys->is_damaged) {
		check_problem(keys->check, place,
			"%llu of the %llu names that inputs gave are lost: appends that need them are refused until holdfast repair",
			(unsigned long long)(had - keys->names.inputs), (unsigned long long)had);
	}
}

void check_keys_end(struct keys_check *keys, bool log_is_good)
{
	char place[256];
	char more[64] = "";
	while (!keys->is_over) {
		skip_name(keys);
	}
	log_lines_close(&keys->lines);
	json_decref(keys->json);
	tell_lost(keys);
	name_table_finish(&keys->names);
	if (!keys->wrong || !log_is_good || keys->is_damaged) {
		return;
	}
	file_place(keys, place);
	if (keys->wrong > 1) {
		snprintf(more, sizeof(more), "; wrong names in total: %llu",
			(unsigned long long)keys->wrong);
	}
	check_problem(keys->check, place, "%s%s", keys->first, more);
}
