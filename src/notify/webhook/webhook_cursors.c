/*
 * webhooks.jsonl, the file of cursors. A thread of its own appends lines, and rewrites the file
 * without obsolete lines when it has grown large. If a cursor is lost, in a crash of the machine or
 * with a full disk, a message is sent twice, with the same id.
 */
#include "webhook_internal.h"

#include "holdfast/beneath.h"
#include "holdfast/diag.h"
#include "holdfast/line_file.h"
#include "holdfast/sealed_line.h"
#include "holdfast/worker.h"

#include <errno.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A file is rewritten when it has doubled since the last time, but not below this size (bytes). */
#define ANEW_MIN ((size_t)256 * 1024)
/* Most bytes of lines that are kept while they cannot be written. */
#define WAITING_MAX ((size_t)1024 * 1024)
/* After this time (ms), lines that could not be written are tried again. */
#define RETRY_MS 1000

struct cursors {
	char *path;
	struct worker *worker; /* NULL: it has ended */
	struct buffer waiting;
	uv_timer_t retry; /* runs after a write has failed */
	bool is_working;
	const struct server_life *life;
	struct diag_limit warned;
	/* Input and results of the thread. */
	struct buffer writing;
	size_t anew_size; /* the file is rewritten when it is larger (bytes) */
	int status;
};

void webhook_name(const char *url, char ret[HOOK_NAME_SIZE])
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	EVP_Digest(url, strlen(url), sum, NULL, EVP_sha256(), NULL);
	for (size_t i = 0; i < (HOOK_NAME_SIZE - 1) / 2; i++) {
		snprintf(ret + 2 * i, 3, "%02x", sum[i]);
	}
}

/* --- lines --- */

void cursors_append(struct buffer *out, const struct cursor_line *line)
{
	size_t start = out->len;
	buffer_printf(out, "{\"hook\":\"%s\"", line->hook);
	if (line->session) {
		buffer_append_member(out, "session", line->session);
		buffer_printf(out, ",\"epoch\":\"%016llx\",\"seq\":%llu",
			(unsigned long long)line->epoch, (unsigned long long)line->seq);
	}
	sealed_line_end(out, start);
}

static void append_gone(struct buffer *out, const char *session)
{
	size_t start = out->len;
	buffer_append_str(out, "{\"gone\":");
	buffer_append_json(out, session, strlen(session));
	sealed_line_end(out, start);
}

/** Parses a line; the strings belong to the JSON that is returned. NULL if it is damaged. */
static json_t *read_line(
	const char *line, size_t len, struct cursor_line *ret, const char **ret_gone)
{
	size_t body;
	json_t *json = sealed_line_check(line, len, &body) ? json_loadb(line, len, 0, NULL) : NULL;
	const char *epoch = json_string_value(json_object_get(json, "epoch"));
	*ret = (struct cursor_line){.hook = json_string_value(json_object_get(json, "hook")),
		.session = json_string_value(json_object_get(json, "session")),
		.epoch = epoch ? strtoull(epoch, NULL, 16) : 0,
		.seq = (uint64_t)json_integer_value(json_object_get(json, "seq"))};
	*ret_gone = json_string_value(json_object_get(json, "gone"));
	if (json && !ret->hook && !*ret_gone) {
		json_decref(json);
		return NULL;
	}
	return json;
}

/** The newest line of each hook and session. */
struct newest {
	struct hash *lines; /* char *, by hook and session */
	struct hash *hooks; /* char *, lines without a session, by hook */
	const char *gone; /* the deleted session of the line that is being read; NULL: none */
	size_t damaged;
};

static char *key_of(const char *hook, const char *session)
{
	return xprintf("%s %s", hook, session ? session : "");
}

static void take_out(void *value, void *arg)
{
	struct newest *newest = arg;
	struct cursor_line line;
	const char *gone;
	json_t *json = read_line(value, strcspn(value, "\n"), &line, &gone);
	char *key = key_of(line.hook, newest->gone);
	hash_remove(newest->lines, key, strlen(key));
	free(key);
	json_decref(json);
}

static void note_line(struct newest *newest, char *text, size_t len)
{
	struct cursor_line line;
	json_t *json = read_line(text, len, &line, &newest->gone);
	if (!json) {
		newest->damaged++;
		return;
	}
	if (newest->gone) {
		hash_each(newest->hooks, take_out, newest);
	} else {
		char *key = key_of(line.hook, line.session);
		hash_put(newest->lines, key, strlen(key), text);
		if (!line.session) {
			hash_put(newest->hooks, key, strlen(key), text);
		}
		free(key);
	}
	json_decref(json);
}

/** Calls `visit` for the newest lines, those of hooks first. Returns how many lines are damaged. */
static size_t each_newest(struct buffer *bytes,
	void (*visit)(void *arg, const char *text, size_t len, const struct cursor_line *line),
	void *arg)
{
	struct newest newest = {.lines = hash_create(), .hooks = hash_create()};
	char *end = bytes->data + bytes->len;
	char *newline;
	for (int round = 0; round < 3; round++) {
		for (char *at = bytes->data;
			at < end && (newline = memchr(at, '\n', (size_t)(end - at)));
			at = newline + 1) {
			struct cursor_line line;
			const char *gone;
			size_t len = (size_t)(newline - at);
			if (round == 0) {
				note_line(&newest, at, len);
				continue;
			}
			json_t *json = read_line(at, len, &line, &gone);
			char *key = json && !gone ? key_of(line.hook, line.session) : NULL;
			if (key && !line.session == (round == 1) &&
				hash_get(newest.lines, key, strlen(key)) == at) {
				visit(arg, at, len, &line);
			}
			free(key);
			json_decref(json);
		}
	}
	hash_destroy(newest.lines);
	hash_destroy(newest.hooks);
	return newest.damaged;
}

/* --- on the thread --- */

static void keep_line(void *arg, const char *text, size_t len, const struct cursor_line *line)
{
	buffer_append(arg, text, len + 1);
}

static void write_anew(struct cursors *cursors)
{
	struct stat st;
	struct buffer bytes = {0};
	struct buffer kept = {0};
	if (lstat(cursors->path, &st) < 0 || (size_t)st.st_size <= cursors->anew_size) {
		return;
	}
	cursors->anew_size = 2 * (size_t)st.st_size; /* retry much later if this fails */
	if (line_file_read(cursors->path, &bytes) == 0) {
		each_newest(&bytes, keep_line, &kept);
		if (line_file_replace(cursors->path, &kept) == 0) {
			cursors->anew_size = 2 * kept.len > ANEW_MIN ? 2 * kept.len : ANEW_MIN;
		}
	}
	buffer_finish(&bytes);
	buffer_finish(&kept);
}

static void handle_run(void *arg)
{
	struct cursors *cursors = arg;
	cursors->status =
		line_file_append(cursors->path, cursors->writing.data, cursors->writing.len);
	write_anew(cursors);
}

static void start(struct cursors *cursors)
{
	if (!cursors->is_working && cursors->waiting.len && server_may(cursors->life, MAY_TELL)) {
		struct buffer empty = cursors->writing;
		cursors->writing = cursors->waiting;
		cursors->waiting = empty;
		cursors->is_working = true;
		worker_start(cursors->worker);
	}
}

static void end_worker(struct cursors *cursors)
{
	if (cursors->worker) {
		worker_destroy(cursors->worker);
		cursors->worker = NULL;
	}
}

static void handle_retry(uv_timer_t *timer)
{
	start(timer->data);
}

/** Puts the lines that could not be written in front of the next ones, and tries again soon. */
static void keep_for_later(struct cursors *cursors)
{
	diag_limited(&cursors->warned, DIAG_WARN,
		"%s cannot be written: %s. If the server ends before that is fixed, webhooks may get messages twice",
		cursors->path, file_error(-cursors->status));
	if (cursors->writing.len + cursors->waiting.len < WAITING_MAX) {
		if (cursors->waiting.len) {
			buffer_append(
				&cursors->writing, cursors->waiting.data, cursors->waiting.len);
		}
		struct buffer rest = cursors->waiting;
		cursors->waiting = cursors->writing;
		cursors->writing = rest;
	}
	if (server_may(cursors->life, MAY_TELL)) {
		uv_timer_start(&cursors->retry, handle_retry, RETRY_MS, 0);
	}
}

static void handle_done(void *arg)
{
	struct cursors *cursors = arg;
	cursors->is_working = false;
	if (cursors->status < 0) {
		keep_for_later(cursors);
	}
	buffer_clear(&cursors->writing);
	if (!server_may(cursors->life, MAY_TELL)) {
		end_worker(cursors);
	} else if (cursors->status == 0) {
		start(cursors);
	}
}

/* --- interface --- */

struct giving {
	void (*visit)(void *arg, const struct cursor_line *line);
	void *arg;
};

static void give_line(void *arg, const char *text, size_t len, const struct cursor_line *line)
{
	const struct giving *giving = arg;
	giving->visit(giving->arg, line);
}

int cursors_open(const struct server_life *life, uv_loop_t *loop, const char *data_dir,
	void (*visit)(void *arg, const struct cursor_line *line), void *arg,
	struct cursors **ret_cursors, char **ret_why)
{
	struct buffer bytes = {0};
	struct giving giving = {visit, arg};
	char *path = xprintf("%s/webhooks.jsonl", data_dir);
	int r = line_file_read(path, &bytes);
	if (r < 0) {
		*ret_why = xprintf("%s cannot be read: %s", path, file_error(-r));
		buffer_finish(&bytes);
		free(path);
		return r;
	}
	size_t damaged = bytes.len ? each_newest(&bytes, give_line, &giving) : 0;
	if (damaged) {
		diag(DIAG_WARN,
			"%s: %zu damaged lines are ignored; of the sessions that they name, messages may be sent twice, or not at all",
			path, damaged);
	}
	buffer_finish(&bytes);
	struct cursors *cursors = xcalloc(1, sizeof(*cursors));
	cursors->path = path;
	cursors->life = life;
	cursors->anew_size = ANEW_MIN;
	cursors->worker = worker_create(loop, handle_run, handle_done, cursors);
	uv_timer_init(loop, &cursors->retry);
	cursors->retry.data = cursors;
	*ret_cursors = cursors;
	return 0;
}

int cursors_begin(struct cursors *cursors, const struct buffer *lines)
{
	int r = line_file_replace(cursors->path, lines);
	if (r == 0) {
		cursors->anew_size = 2 * lines->len > ANEW_MIN ? 2 * lines->len : ANEW_MIN;
	}
	return r;
}

void cursors_note(struct cursors *cursors, const struct cursor_line *line)
{
	if (cursors->waiting.len < WAITING_MAX) { /* dropped if the disk hangs */
		cursors_append(&cursors->waiting, line);
	}
	start(cursors);
}

void cursors_forget(struct cursors *cursors, const char *session)
{
	if (cursors->waiting.len < WAITING_MAX) {
		append_gone(&cursors->waiting, session);
	}
	start(cursors);
}

void cursors_stop(struct cursors *cursors)
{
	uv_close((uv_handle_t *)&cursors->retry, NULL);
	if (!cursors->is_working) {
		end_worker(cursors);
	}
}

void cursors_destroy(struct cursors *cursors)
{
	if (!cursors) {
		return;
	}
	if (cursors->waiting.len) {
		line_file_append(cursors->path, cursors->waiting.data, cursors->waiting.len);
	}
	buffer_finish(&cursors->waiting);
	buffer_finish(&cursors->writing);
	free(cursors->path);
	free(cursors);
}
