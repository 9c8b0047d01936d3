/*
 * What must be found by name for as long as a log lives: prompts by their id, answers to permission
 * requests by the request's. keys.jsonl has a line for each, is written with the log, and is read
 * only when a name has to be looked up.
 */
#include "store_internal.h"

#include "holdfast/diag.h"
#include "holdfast/json_text.h"
#include "holdfast/pack.h"
#include "holdfast/sealed_line.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Lines gather in memory up to this many bytes; the journal has what they come from. */
#define UNWRITTEN_MAX ((size_t)16 << 10)

/*
 * In memory a name is 16 bytes: its digest, and where its line starts in the file, or behind it in
 * what is unwritten. The line says the rest.
 */
struct key_slot {
	uint64_t digest;
	uint64_t at; /* + 1; 0: free */
};

void log_keys_rest(struct log_keys *keys)
{
	free(keys->slots);
	keys->slots = NULL;
	keys->slot_count = keys->used = 0;
	buffer_finish(&keys->found);
}

void log_keys_finish(struct log_keys *keys)
{
	log_keys_rest(keys);
	buffer_finish(&keys->unwritten);
}

/* --- in memory --- */

/** `key` as it stands in the line, escaped. Nobody outside knows the seed. */
static uint64_t digest_of(
	const struct session_log *log, enum log_key_kind kind, const char *key, size_t len)
{
	return journal_session_hash(key, len, log->store->by_id.seed + (uint64_t)kind);
}

static struct key_slot *find_slot(const struct log_keys *keys, uint64_t digest)
{
	size_t mask = keys->slot_count - 1;
	size_t i = (size_t)digest & mask;
	while (keys->slots[i].at && keys->slots[i].digest != digest) {
		i = (i + 1) & mask;
	}
	return &keys->slots[i];
}

static void make_room(struct log_keys *keys)
{
	if (keys->slot_count && keys->used < keys->slot_count / 4 * 3) {
		return;
	}
	struct log_keys grown = *keys;
	grown.slot_count = keys->slot_count ? keys->slot_count * 2 : 16;
	grown.slots = xcalloc(grown.slot_count, sizeof(struct key_slot));
	for (size_t i = 0; i < keys->slot_count; i++) {
		if (keys->slots[i].at) {
			*find_slot(&grown, keys->slots[i].digest) = keys->slots[i];
		}
	}
	free(keys->slots);
	keys->slots = grown.slots;
	keys->slot_count = grown.slot_count;
}

/** Of names that inputs gave the first line counts, of those that events tell the last. */
static void put_slot(struct log_keys *keys, enum log_key_kind kind, uint64_t digest, uint64_t at)
{
	make_room(keys);
	struct key_slot *slot = find_slot(keys, digest);
	if (!slot->at) {
		keys->used++;
	} else if (kind >= LOG_KEY_INPUT) {
		return;
	}
	*slot = (struct key_slot){.digest = digest, .at = at + 1};
}

void log_keys_add(struct session_log *log, const struct log_name *name)
{
	struct log_keys *keys = &log->keys;
	struct buffer *out = &keys->unwritten;
	size_t start = out->len;
	buffer_printf(out, "{\"kind\":\"%s\",\"seq\":%llu,\"key\":", log_key_kind_name(name->kind),
		(unsigned long long)name->seq);
	size_t key = out->len;
	buffer_append_json(out, name->key, strlen(name->key));
	size_t key_end = out->len;
	if (*name->by) {
		buffer_append_str(out, ",\"by\":");
		buffer_append_json(out, name->by, strlen(name->by));
	}
	if (name->kind == LOG_KEY_INPUT) {
		buffer_printf(out, ",\"sum\":\"%016llx\"", (unsigned long long)name->sum.value);
	}
	if (name->sum.rule) {
		buffer_printf(out, ",\"rule\":%u", name->sum.rule);
	}
	sealed_line_end(out, start);
	if (keys->slots) {
		uint64_t digest =
			digest_of(log, name->kind, out->data + key + 1, key_end - key - 2);
		put_slot(keys, name->kind, digest, keys->size + start);
	}
	log->dirty = true;
}

void session_log_note_input(struct session_log *log, uint64_t nth, enum log_key_kind kind,
	const char *key, uint64_t seq, const struct key_sum *sum)
{
	if (nth < log->keys.input_names) {
		return; /* the journal tells again what is there */
	}
	log->keys.input_names = nth + 1;
	log_keys_add(log,
		&(struct log_name){.kind = kind, .seq = seq, .key = key, .by = "", .sum = *sum});
}

uint64_t session_log_input_names(const struct session_log *log)
{
	return log->keys.input_names;
}

/* --- the lines --- */

typedef int (*see_name)(
	struct session_log *log, const struct raw_name *name, uint64_t at, void *arg);

/** Shows the names of some lines, the first of which starts at `from` in the file. */
static int see_lines(struct session_log *log, const char *bytes, size_t len, uint64_t from,
	see_name see, void *arg)
{
	const char *end = bytes + len;
	int r = 0;
	for (const char *at = bytes; r == 0 && at < end;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		struct raw_name name;
		r = newline ? log_name_scan(at, (size_t)(newline - at), &name) : -EBADMSG;
		if (r == 0 && name.kind != LOG_KEY_UNKNOWN) {
			r = see(log, &name, from + (uint64_t)(at - bytes), arg);
		}
		at = newline ? newline + 1 : end;
	}
	return r;
}

static int take_name(struct session_log *log, const struct raw_name *name, uint64_t at, void *arg)
{
	put_slot(&log->keys, name->kind, digest_of(log, name->kind, name->key, name->key_len), at);
	return 0;
}

/* --- the file --- */

/** Opens keys.jsonl; -EBADMSG if it is shorter than it must be. What is behind that is cut off. */
static int open_file(struct session_log *log)
{
	struct log_keys *keys = &log->keys;
	char path[160];
	snprintf(path, sizeof(path), "%s/keys.jsonl", log->id);
	int flags = O_RDWR | O_APPEND | O_CLOEXEC | (keys->size ? 0 : O_CREAT);
	int fd = disk->openat(log->store->sessions_fd, path, flags, 0600);
	if (fd < 0) {
		return errno == ENOENT ? -EBADMSG : -errno;
	}
	log->has_new_files = log->has_new_files || !keys->size;
	struct stat st;
	int r = 0;
	if (!keys->is_seen) {
		r = fstat(fd, &st) < 0 ? -errno : 0;
		if (r == 0 && (uint64_t)st.st_size < keys->size) {
			r = -EBADMSG;
		} else if (r == 0 && (uint64_t)st.st_size > keys->size &&
			   disk->ftruncate(fd, (off_t)keys->size) < 0) {
			r = -errno;
		}
		keys->is_seen = r == 0;
	}
	if (r < 0) {
		close(fd);
		return r;
	}
	return fd;
}

/** What an input named, as far as its event still tells; unless that has a line. */
static void add_missing(
	struct session_log *log, enum log_key_kind kind, const char *key, uint64_t seq)
{
	struct buffer escaped = {0};
	if (*key) {
		buffer_append_json(&escaped, key, strlen(key));
		uint64_t digest = digest_of(log, kind, escaped.data + 1, escaped.len - 2);
		if (!find_slot(&log->keys, digest)->at) {
			log_keys_add(log,
				&(struct log_name){.kind = kind, .seq = seq, .key = key, .by = ""});
		}
	}
	buffer_finish(&escaped);
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? text : "";
}

/** A string as it stands in a line, without its quotes but escaped; NULL if it is none. */
static json_t *read_string(const char *text, size_t len)
{
	/* With the quotes around it, it is JSON. */
	return json_read(text - 1, len + 2, JSON_DECODE_ANY, NULL, NULL);
}

static void add_missing_names(struct session_log *log, const struct event_view *view)
{
	bool is_call = view->type == EVENT_TOOL_CALL;
	bool is_prompt = view->type == EVENT_USER_PROMPT;
	if (view->message_id) {
		json_t *id = read_string(view->message_id, view->message_id_len);
		add_missing(log, LOG_KEY_MESSAGE, id ? json_string_value(id) : "", view->seq);
		json_decref(id);
	}
	if (!is_call && view->type != EVENT_TOOL_CALL_UPDATE && !is_prompt) {
		return;
	}
	json_t *json = json_read(view->data, view->data_len, 0, NULL, NULL);
	const char *status = text_of(json, "status");
	if (is_prompt && !view->message_id) {
		add_missing(log, LOG_KEY_MESSAGE, text_of(json, "prompt_id"), view->seq);
	}
	if (is_call) {
		add_missing(log, LOG_KEY_TOOL_CALL, text_of(json, "tool_call_id"), view->seq);
	}
	/* A call may come with its result. */
	bool has_ended = strcmp(status, "completed") == 0 || strcmp(status, "failed") == 0;
	if (!is_prompt && has_ended) {
		add_missing(log, LOG_KEY_TOOL_RESULT, text_of(json, "tool_call_id"), view->seq);
	}
	json_decref(json);
}

static int remake_line(void *arg, const struct event_view *view, uint64_t offset, size_t len)
{
	if (view) {
		log_note_key(arg, view);
		add_missing_names(arg, view);
	}
	return 0;
}

/** Keeps the lines of names that only inputs gave, as far as they are good. */
static void salvage(struct buffer *bytes, struct buffer *out)
{
	const char *at = bytes->data;
	const char *end = at + bytes->len;
	const char *newline;
	while (at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
		struct raw_name name;
		if (log_name_scan(at, (size_t)(newline - at), &name) == 0 &&
			name.kind >= LOG_KEY_INPUT) {
			buffer_append(out, at, (size_t)(newline + 1 - at));
		}
		at = newline + 1;
	}
}

/** What is there of the file, however long it is. */
static void read_rest(const struct session_log *log, struct buffer *out)
{
	char path[160];
	struct stat st;
	snprintf(path, sizeof(path), "%s/keys.jsonl", log->id);
	int fd = disk->openat(log->store->sessions_fd, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0) {
		return;
	}
	if (fstat(fd, &st) == 0) {
		size_t len = (uint64_t)st.st_size < log->keys.size ? (size_t)st.st_size
								   : (size_t)log->keys.size;
		buffer_reserve(out, len);
		out->len = disk_read_at(fd, 0, out->data, len) < 0 ? 0 : len;
	}
	close(fd);
}

/**
 * Puts the unwritten lines beside the file and then in its place, so that a crash loses neither.
 */
static int replace_file(struct session_log *log)
{
	static const char fresh[] = "keys.jsonl.new";
	struct log_keys *keys = &log->keys;
	int dir_fd = session_log_dir(log);
	if (dir_fd < 0) {
		return dir_fd;
	}
	int fd = disk->openat(dir_fd, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : disk_write_all(fd, keys->unwritten.data, keys->unwritten.len);
	if (r == 0 && disk->fdatasync(fd) < 0) {
		r = -errno;
	}
	if (fd >= 0) {
		close(fd);
	}
	if (r == 0 && disk->renameat(dir_fd, fresh, dir_fd, "keys.jsonl") < 0) {
		r = -errno;
	}
	if (r == 0 && disk->fsync(dir_fd) < 0) {
		r = -errno;
	}
	close(dir_fd);
	if (r == 0) {
		keys->size = keys->unwritten.len;
		keys->disk = (struct durable_part){.certain = keys->size};
		keys->is_seen = true;
		buffer_finish(&keys->unwritten);
	}
	return r;
}

/**
 * Makes the file again: from the log, which is right, and with what can still be read of names that
 * the log does not know.
 */
static int remake_file(struct session_log *log)
{
	struct log_keys *keys = &log->keys;
	struct buffer old = {0};
	diag(DIAG_WARN,
		"session %s: keys.jsonl is damaged; it is made again from the log. Keys and runs of producers whose lines cannot be read are forgotten",
		log->id);
	int fd = session_log_fd(log);
	if (fd < 0) {
		return fd;
	}
	read_rest(log, &old);
	log_keys_rest(keys);
	struct buffer newest = keys->unwritten;
	keys->unwritten = (struct buffer){0};
	salvage(&old, &keys->unwritten);
	buffer_finish(&old);
	make_room(keys);
	see_lines(log, keys->unwritten.data, keys->unwritten.len, 0, take_name, NULL);
	int r = log_scan(fd, 0, log->size - log->unwritten.len, remake_line, log);
	if (r == 0) {
		buffer_append(&keys->unwritten, newest.data, newest.len);
		r = replace_file(log);
	}
	if (r < 0) { /* the old one stands there still, and what is new waits */
		buffer_finish(&keys->unwritten);
		keys->unwritten = newest;
		return r;
	}
	/* Metadata that counts on another size sends the next start here again. */
	log->dirty = true;
	buffer_finish(&newest);
	log_keys_rest(keys);
	return 0;
}

int log_keys_flush(struct session_log *log)
{
	struct log_keys *keys = &log->keys;
	if (!keys->unwritten.len) {
		return 0;
	}
	int fd = open_file(log);
	if (fd == -EBADMSG) {
		return remake_file(log);
	}
	if (fd < 0) {
		return fd;
	}
	int r = disk_append(fd, keys->size, keys->unwritten.data, keys->unwritten.len);
	close(fd);
	if (r < 0) {
		keys->is_seen = false; /* part of it may stand there */
		return r;
	}
	keys->size += keys->unwritten.len;
	keys->disk.is_unsynced = true;
	buffer_finish(&keys->unwritten);
	return 0;
}

int log_keys_flush_if_full(struct session_log *log)
{
	return log->keys.unwritten.len >= UNWRITTEN_MAX ? log_keys_flush(log) : 0;
}

/** Shows the names in the file, and then the others. */
static int each_name(struct session_log *log, see_name see, void *arg)
{
	struct log_keys *keys = &log->keys;
	struct buffer bytes = {0};
	int fd = keys->size ? open_file(log) : -1;
	if (keys->size && fd < 0) {
		return fd;
	}
	buffer_reserve(&bytes, (size_t)keys->size + 1);
	int r = fd < 0 ? 0 : disk_read_at(fd, 0, bytes.data, (size_t)keys->size);
	if (fd >= 0) {
		close(fd);
	}
	if (r == 0) {
		r = see_lines(log, bytes.data, (size_t)keys->size, 0, see, arg);
	}
	buffer_finish(&bytes);
	return r < 0 ? r
		     : see_lines(log, keys->unwritten.data, keys->unwritten.len, keys->size, see,
			       arg);
}

static int load_names(struct session_log *log)
{
	struct log_keys *keys = &log->keys;
	make_room(keys);
	int r = each_name(log, take_name, NULL);
	if (r == -EBADMSG) {
		r = remake_file(log);
		log_keys_rest(keys);
		make_room(keys);
		r = r < 0 ? r : each_name(log, take_name, NULL);
	}
	if (r < 0) {
		log_keys_rest(keys);
		diag(DIAG_ERROR, "session %s: keys.jsonl cannot be read: %s", log->id,
			strerror(-r));
	}
	return r;
}

/** Puts the line that starts at `at`, without its newline, into keys->found. */
static int read_line_at(struct session_log *log, uint64_t at)
{
	struct log_keys *keys = &log->keys;
	buffer_clear(&keys->found);
	if (at >= keys->size) {
		const char *line = keys->unwritten.data + (at - keys->size);
		size_t len = keys->unwritten.len - (size_t)(at - keys->size);
		buffer_append(
			&keys->found, line, (size_t)((const char *)memchr(line, '\n', len) - line));
		return 0;
	}
	int fd = open_file(log);
	const char *newline = NULL;
	int r = fd < 0 ? fd : 0;
	for (size_t len = 256; r == 0 && !newline; len *= 8) {
		uint64_t left = keys->size - at;
		len = len < left ? len : (size_t)left;
		buffer_reserve(&keys->found, len);
		r = disk_read_at(fd, at, keys->found.data, len);
		newline = r < 0 ? NULL : memchr(keys->found.data, '\n', len);
		if (r == 0 && !newline && len == left) {
			r = -EBADMSG;
		}
	}
	if (fd >= 0) {
		close(fd);
	}
	keys->found.len = newline ? (size_t)(newline - keys->found.data) : 0;
	return r;
}

/** The value of a string member of our own lines, unescaped, in place. */
static const char *unescape(struct buffer *found, const struct log_name *name)
{
	buffer_clear(found);
	buffer_append(found, name->by, strlen(name->by) + 1);
	return found->data;
}

int session_log_find_key(
	struct session_log *log, enum log_key_kind kind, const char *key, struct log_key *ret_key)
{
	struct log_keys *keys = &log->keys;
	struct buffer escaped = {0};
	struct log_name name = {0};
	int r = keys->slots ? 0 : load_names(log);
	if (r < 0) {
		return r;
	}
	buffer_append_json(&escaped, key, strlen(key));
	uint64_t digest = digest_of(log, kind, escaped.data + 1, escaped.len - 2);
	buffer_finish(&escaped);
	const struct key_slot *slot = find_slot(keys, digest);
	if (!slot->at) {
		return 0;
	}
	r = read_line_at(log, slot->at - 1);
	if (r == 0) {
		r = log_name_parse(keys->found.data, keys->found.len, &name);
	}
	bool is_it = r == 0 && name.kind == kind && strcmp(name.key, key) == 0;
	if (is_it) {
		ret_key->seq = name.seq;
		ret_key->sum = name.sum;
		ret_key->by = unescape(&keys->found, &name);
	}
	log_name_finish(&name);
	return r < 0 ? r : is_it;
}

struct messages {
	void (*visit)(void *arg, const char *message_id);
	void *arg;
};

static int visit_message(
	struct session_log *log, const struct raw_name *name, uint64_t at, void *arg)
{
	const struct messages *messages = arg;
	if (name->kind != LOG_KEY_MESSAGE) {
		return 0;
	}
	json_t *text = read_string(name->key, name->key_len);
	if (text) {
		messages->visit(messages->arg, json_string_value(text));
	}
	json_decref(text);
	return 0;
}

int session_log_each_message(
	struct session_log *log, void (*visit)(void *arg, const char *message_id), void *arg)
{
	struct messages messages = {.visit = visit, .arg = arg};
	int r = log->keys.slots ? 0 : load_names(log); /* which mends the file if need be */
	return r < 0 ? r : each_name(log, visit_message, &messages);
}
