/*
 * What must be found by name for as long as a log lives: prompts by their id, answers to permission
 * requests by the request's. keys.jsonl has a line for each, is written with the log, and is read
 * only when a name has to be looked up.
 */
#include "store_internal.h"

#include "holdfast/diag.h"
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

static const char *const kind_names[] = {[LOG_KEY_PROMPT] = "prompt", [LOG_KEY_ANSWER] = "answer"};

struct key_value {
	uint64_t seq;
	char by[];
};

static void free_value(void *value, void *arg)
{
	free(value);
}

void log_keys_rest(struct log_keys *keys)
{
	if (keys->by_name) {
		hash_each(keys->by_name, free_value, NULL);
		hash_destroy(keys->by_name);
		keys->by_name = NULL;
	}
}

void log_keys_finish(struct log_keys *keys)
{
	log_keys_rest(keys);
	buffer_finish(&keys->unwritten);
}

/* --- in memory --- */

static void name_of(enum log_key_kind kind, const char *key, size_t len, struct buffer *out)
{
	pack_le(out, kind, 1);
	buffer_append(out, key, len);
}

static void put_name(struct hash *by_name, enum log_key_kind kind, const char *key, size_t len,
	const char *by, size_t by_len, uint64_t seq)
{
	struct buffer name = {0};
	struct key_value *value = xmalloc(sizeof(*value) + by_len + 1);
	value->seq = seq;
	memcpy(value->by, by, by_len);
	value->by[by_len] = '\0';
	name_of(kind, key, len, &name);
	free(hash_put(by_name, name.data, name.len, value));
	buffer_finish(&name);
}

void log_keys_add(struct session_log *log, enum log_key_kind kind, const char *key, const char *by,
	uint64_t seq)
{
	struct buffer *out = &log->keys.unwritten;
	size_t start = out->len;
	buffer_printf(out, "{\"kind\":\"%s\",\"seq\":%llu,\"key\":", kind_names[kind],
		(unsigned long long)seq);
	buffer_append_json(out, key, strlen(key));
	if (*by) {
		buffer_append_str(out, ",\"by\":");
		buffer_append_json(out, by, strlen(by));
	}
	sealed_line_end(out, start);
	if (log->keys.by_name) {
		put_name(log->keys.by_name, kind, key, strlen(key), by, strlen(by), seq);
	}
}

/* --- the lines --- */

void log_name_finish(struct log_name *name)
{
	json_decref(name->json);
	*name = (struct log_name){0};
}

static enum log_key_kind find_kind(const char *name)
{
	for (enum log_key_kind i = LOG_KEY_PROMPT; i <= LOG_KEY_ANSWER; i++) {
		if (strcmp(name, kind_names[i]) == 0) {
			return i;
		}
	}
	return LOG_KEY_UNKNOWN;
}

int log_name_parse(const char *line, size_t len, struct log_name *ret_name)
{
	size_t body;
	*ret_name = (struct log_name){0};
	if (!sealed_line_check(line, len, &body)) {
		return -EBADMSG;
	}
	json_t *json = json_loadb(line, len, 0, NULL);
	const char *kind = json_string_value(json_object_get(json, "kind"));
	const char *key = json_string_value(json_object_get(json, "key"));
	const char *by = json_string_value(json_object_get(json, "by"));
	json_int_t seq = json_integer_value(json_object_get(json, "seq"));
	struct log_name name = {.kind = kind ? find_kind(kind) : LOG_KEY_UNKNOWN,
		.seq = (uint64_t)seq,
		.key = key,
		.by = by ? by : "",
		.json = json};
	if (!kind || (name.kind != LOG_KEY_UNKNOWN && (!key || seq <= 0))) {
		json_decref(json);
		return -EBADMSG;
	}
	*ret_name = name;
	return 0;
}

static int read_line(struct hash *by_name, const char *line, size_t len)
{
	struct log_name name;
	int r = log_name_parse(line, len, &name);
	if (r == 0 && name.kind != LOG_KEY_UNKNOWN) {
		put_name(by_name, name.kind, name.key, strlen(name.key), name.by, strlen(name.by),
			name.seq);
	}
	log_name_finish(&name);
	return r;
}

static int read_lines(struct hash *by_name, const char *bytes, size_t len)
{
	const char *end = bytes + len;
	int r = 0;
	for (const char *at = bytes; r == 0 && at < end;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		r = newline ? read_line(by_name, at, (size_t)(newline - at)) : -EBADMSG;
		at = newline ? newline + 1 : end;
	}
	return r;
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

struct remake {
	struct session_log *log;
	struct buffer lines;
};

static int remake_line(void *arg, const struct event_view *view, uint64_t offset, size_t len)
{
	struct remake *remake = arg;
	if (view) {
		log_note_key(remake->log, view);
	}
	return 0;
}

/** Makes the file again from the log: it is the log that is right. */
static int remake_file(struct session_log *log)
{
	struct log_keys *keys = &log->keys;
	diag(DIAG_WARN, "session %s: keys.jsonl does not fit its log; it is made again", log->id);
	int fd = session_log_fd(log);
	if (fd < 0) {
		return fd;
	}
	char path[160];
	snprintf(path, sizeof(path), "%s/keys.jsonl", log->id);
	if (disk->unlinkat(log->store->sessions_fd, path, 0) < 0 && errno != ENOENT) {
		return -errno;
	}
	/* Metadata that counts on bytes that are no more sends the next start here again. */
	keys->size = 0;
	keys->is_seen = true;
	log_keys_rest(keys);
	log->dirty = true;
	struct buffer newest = keys->unwritten;
	keys->unwritten = (struct buffer){0};
	struct remake remake = {.log = log};
	int r = log_scan(fd, 0, log->size - log->unwritten.len, remake_line, &remake);
	buffer_append(&keys->unwritten, newest.data, newest.len);
	buffer_finish(&newest);
	return r;
}

int log_keys_flush(struct session_log *log)
{
	struct log_keys *keys = &log->keys;
	if (!keys->unwritten.len) {
		return 0;
	}
	int fd = open_file(log);
	if (fd == -EBADMSG) {
		int r = remake_file(log);
		fd = r < 0 ? r : open_file(log);
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
	keys->is_unsynced = true;
	buffer_finish(&keys->unwritten);
	return 0;
}

/** Reads the file's part of the names. */
static int load_file(struct session_log *log, struct hash *by_name)
{
	struct log_keys *keys = &log->keys;
	if (!keys->size) {
		return 0;
	}
	int fd = open_file(log);
	if (fd < 0) {
		return fd;
	}
	struct buffer bytes = {0};
	buffer_reserve(&bytes, (size_t)keys->size);
	int r = disk_read_at(fd, 0, bytes.data, (size_t)keys->size);
	close(fd);
	if (r == 0) {
		r = read_lines(by_name, bytes.data, (size_t)keys->size);
	}
	buffer_finish(&bytes);
	return r;
}

static int load_names(struct session_log *log)
{
	struct log_keys *keys = &log->keys;
	struct hash *by_name = hash_create();
	int r = load_file(log, by_name);
	if (r == -EBADMSG) {
		r = remake_file(log);
	}
	if (r == 0) {
		r = read_lines(by_name, keys->unwritten.data, keys->unwritten.len);
	}
	if (r < 0) {
		hash_each(by_name, free_value, NULL);
		hash_destroy(by_name);
		return r;
	}
	keys->by_name = by_name;
	return 0;
}

int session_log_find_key(
	struct session_log *log, enum log_key_kind kind, const char *key, struct log_key *ret_key)
{
	int r = log->keys.by_name ? 0 : load_names(log);
	if (r < 0) {
		diag(DIAG_ERROR, "session %s: keys.jsonl cannot be read: %s", log->id,
			strerror(-r));
		return r;
	}
	struct buffer name = {0};
	name_of(kind, key, strlen(key), &name);
	const struct key_value *value = hash_get(log->keys.by_name, name.data, name.len);
	buffer_finish(&name);
	if (value) {
		*ret_key = (struct log_key){.seq = value->seq, .by = value->by};
	}
	return value ? 1 : 0;
}
