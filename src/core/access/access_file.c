/*
 * access.jsonl, the file of tokens, revocations and logins. The server and commands append lines to
 * it, each under a lock on the file; a line that a crash left incomplete is cut off by the next
 * append. When the file has grown large, the server rewrites it without obsolete lines.
 */
#include "access_internal.h"

#include "holdfast/beneath.h"
#include "holdfast/diag.h"
#include "holdfast/json_text.h"
#include "holdfast/line_file.h"
#include "holdfast/sealed_line.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file is rewritten when it has doubled since the last time, but not below this size (bytes). */
#define ANEW_MIN ((size_t)256 * 1024)

json_t *access_line_read(const char *line, size_t len)
{
	size_t body;
	return sealed_line_check(line, len, &body) ? json_loadb(line, len, 0, NULL) : NULL;
}

/** If the line ends a login, adds the login to `ended`. */
static void note_logout(const char *line, size_t len, struct hash *ended)
{
	static const char begin[] = "{\"logout\":";
	if (len < sizeof(begin) || memcmp(line, begin, sizeof(begin) - 1) != 0) {
		return;
	}
	json_t *json = access_line_read(line, len);
	const char *cookie = json_string_value(json_object_get(json, "logout"));
	if (cookie) {
		hash_put(ended, cookie, strlen(cookie), ended);
	}
	json_decref(json);
}

/** If the line is about the push subscription of a login, records it as the newest. */
static void note_push(char *line, size_t len, struct hash *newest)
{
	static const char begin[] = "{\"push\":";
	json_t *json = len > sizeof(begin) && memcmp(line, begin, sizeof(begin) - 1) == 0
			       ? access_line_read(line, len)
			       : NULL;
	const json_t *login = json_object_get(json_object_get(json, "push"), "login");
	if (login) {
		hash_put(newest, json_string_value(login), json_string_length(login), line);
	}
	json_decref(json);
}

/** What is known of the lines while a file is rewritten; all tables are by login. */
struct keeping {
	struct hash *ended; /* set of logins that have ended */
	struct hash *pushes; /* the newest line about the login's push subscription */
	struct hash *logins; /* set of logins that are kept */
};

/**
 * Whether the line is the newest about its login's subscription, sets one, and the login is kept.
 */
static bool push_counts(const json_t *push, const char *line, const struct keeping *keeping)
{
	const char *login = json_string_value(json_object_get(push, "login"));
	return login && json_object_get(push, "endpoint") &&
	       hash_get(keeping->logins, login, strlen(login)) &&
	       hash_get(keeping->pushes, login, strlen(login)) == line;
}

/** Whether a line is still needed. A damaged line is kept, so that the next start reports it. */
static bool counts(
	const struct access *access, const char *line, size_t len, const struct keeping *keeping)
{
	json_t *json = access_line_read(line, len);
	const json_t *push = json_object_get(json, "push");
	const json_t *made = json_object_get(json, "created");
	const json_t *login = json_object_get(json, "login");
	const char *cookie = json_string_value(json_object_get(login, "cookie"));
	const json_t *claims = made ? made : json_object_get(login, "claims");
	const json_t *exp = json_object_get(claims, "exp");
	bool does = !json || !json_object_get(json, "logout");
	if (cookie) {
		/* Another server may know a key that this one does not. */
		bool is_known = access->config.shelf ||
				access_knows_key(access, json_object_get(login, "key"));
		does = is_known && !hash_get(keeping->ended, cookie, strlen(cookie));
	}
	if (push) {
		does = push_counts(push, line, keeping);
	}
	if (exp) {
		does = does && json_number_value(exp) * 1000 > (double)access->now_ms;
	}
	if (cookie && does) {
		hash_put(keeping->logins, cookie, strlen(cookie), keeping->logins);
	}
	json_decref(json);
	return does;
}

void access_sort_lines(const struct access *access, const struct buffer *bytes, struct buffer *kept,
	struct buffer *rest)
{
	const struct keeping keeping = {hash_create(), hash_create(), hash_create()};
	const char *end = bytes->data + bytes->len;
	const char *newline;
	for (int round = 0; round < 2; round++) {
		char *at = bytes->data;
		while (at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
			size_t len = (size_t)(newline - at);
			if (round == 0) {
				note_logout(at, len, keeping.ended);
				note_push(at, len, keeping.pushes);
			} else if (counts(access, at, len, &keeping)) {
				buffer_append(kept, at, len + 1);
			} else if (rest) {
				buffer_append(rest, at, len + 1);
			}
			at += len + 1;
		}
	}
	hash_destroy(keeping.ended);
	hash_destroy(keeping.pushes);
	hash_destroy(keeping.logins);
}

/**
 * Rewrites the file if it has grown enough, under the lock, so that no line is lost that a command
 * appends meanwhile.
 */
static void write_anew(struct access *access)
{
	struct stat st;
	struct buffer bytes = {0};
	struct buffer kept = {0};
	int fd = line_file_lock(access->path);
	if (fd < 0) {
		return;
	}
	if (fstat(fd, &st) == 0 && (size_t)st.st_size > access->anew_size) {
		access->anew_size = 2 * (size_t)st.st_size; /* retry much later if this fails */
		if (line_file_read_all(fd, &bytes) == 0 && bytes.len == (size_t)st.st_size) {
			line_file_mend(&bytes);
			access_sort_lines(access, &bytes, &kept, NULL);
			if (line_file_replace(access->path, &kept) == 0) {
				access->anew_size =
					2 * kept.len > ANEW_MIN ? 2 * kept.len : ANEW_MIN;
			}
		}
	}
	close(fd);
	buffer_finish(&bytes);
	buffer_finish(&kept);
}

/* --- on the thread pool --- */

static void start_work(struct access *access);

static void hold(struct access *access, bool is_held)
{
	const struct shelf *shelf = access->config.shelf;
	if (shelf) {
		shelf->hold(shelf->arg, is_held);
	}
}

static void handle_work(uv_work_t *work)
{
	struct access *access = work->data;
	const struct shelf *shelf = access->config.shelf;
	if (shelf) {
		access->status =
			shelf->append(shelf->arg, access->lines.data, access->lines.len, false);
		return;
	}
	access->status = line_file_append(access->path, access->lines.data, access->lines.len);
	write_anew(access);
}

static void handle_written(uv_work_t *work, int status)
{
	struct access *access = work->data;
	hold(access, false);
	access->is_working = false;
	buffer_clear(&access->lines);
	while (!list_empty(&access->writing)) {
		struct access_write *write =
			list_entry(access->writing.next, struct access_write, link);
		list_remove(&write->link);
		if (write->done) {
			write->done(write->arg, status < 0 ? status : access->status);
		}
		free(write);
	}
	start_work(access);
}

static void start_work(struct access *access)
{
	if (access->is_working || list_empty(&access->waiting)) {
		return;
	}
	while (!list_empty(&access->waiting)) {
		struct access_write *write =
			list_entry(access->waiting.next, struct access_write, link);
		list_remove(&write->link);
		list_append(&access->writing, &write->link);
		buffer_append(&access->lines, write->line.data, write->line.len);
		buffer_finish(&write->line);
	}
	access->work.data = access;
	access->now_ms = clock_now_ms(access->config.clock);
	access->is_working = true;
	hold(access, true);
	uv_queue_work(access->config.loop, &access->work, handle_work, handle_written);
}

void access_file_append(struct access *access, struct buffer *object,
	void (*done)(void *arg, int status), void *arg)
{
	struct access_write *write = xcalloc(1, sizeof(*write));
	sealed_line_end(object, 0);
	write->line = *object;
	*object = (struct buffer){0};
	write->done = done;
	write->arg = arg;
	list_append(&access->waiting, &write->link);
	start_work(access);
}

/* --- reading --- */

static int take_line(struct access *access, const char *line, size_t len)
{
	json_t *json = access_line_read(line, len);
	const json_t *login = json_object_get(json, "login");
	const json_t *revoked = json_object_get(json, "revoked");
	const json_t *push = json_object_get(json, "push");
	const char *logout = json_string_value(json_object_get(json, "logout"));
	if (login) {
		access_take_login(access, login);
	} else if (revoked) {
		access_take_revocation(access, revoked);
	} else if (push) {
		access_take_push(access, push);
	} else if (logout) {
		access_take_logout(access, logout);
	}
	json_decref(json); /* lines of created tokens are only for `holdfast token list` */
	return json ? 0 : -EBADMSG;
}

int access_take_lines(struct access *access, const char *at, size_t len, size_t *ret_line)
{
	const char *end = at + len;
	const char *newline;
	for (*ret_line = 1; (newline = memchr(at, '\n', (size_t)(end - at))); ++*ret_line) {
		int r = take_line(access, at, (size_t)(newline - at));
		if (r < 0) {
			return r;
		}
		at = newline + 1;
	}
	return 0;
}

/** Logins that have ended stay so, also if a disk has their lines twice, in another order. */
static void end_logins(struct access *access, const struct buffer *bytes)
{
	const char *at = bytes->data;
	const char *end = at + bytes->len;
	const char *newline;
	struct hash *ended = hash_create();
	while (at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
		note_logout(at, (size_t)(newline - at), ended);
		at = newline + 1;
	}
	list_for_each_safe(link, tmp, &access->login_list) {
		const struct login *login = list_entry(link, struct login, link);
		if (hash_get(ended, login->cookie_sum, strlen(login->cookie_sum))) {
			access_take_logout(access, login->cookie_sum);
		}
	}
	hash_destroy(ended);
}

size_t access_damaged_line(const struct buffer *bytes)
{
	const char *at = bytes->data;
	const char *end = at + bytes->len;
	const char *newline;
	for (size_t line = 1; at < end && (newline = memchr(at, '\n', (size_t)(end - at)));
		line++) {
		json_t *json = access_line_read(at, (size_t)(newline - at));
		json_decref(json);
		if (!json) {
			return line;
		}
		at = newline + 1;
	}
	return 0;
}

int access_file_load(struct access *access, char **ret_why)
{
	struct buffer bytes = {0};
	size_t line = 0;
	int r = line_file_read(access->path, &bytes);
	if (r == 0 && bytes.len) {
		r = access_take_lines(access, bytes.data, bytes.len, &line);
		end_logins(access, &bytes);
	}
	if (r == 0 && line_file_torn(&bytes)) {
		diag(DIAG_WARN, "%s: " ACCESS_TORN, access->path);
	}
	access->anew_size = ANEW_MIN;
	access->now_ms = clock_now_ms(access->config.clock);
	if (r == 0 && bytes.len > ANEW_MIN) {
		write_anew(access);
	}
	buffer_finish(&bytes);
	struct buffer why = {0};
	if (r == -EBADMSG) {
		buffer_printf(
			&why, "%s is damaged in line %zu: " ACCESS_DAMAGED, access->path, line);
	} else if (r < 0) {
		buffer_printf(
			&why, "%s cannot be read or written: %s", access->path, file_error(-r));
	}
	if (r < 0) {
		buffer_cstr(&why);
		*ret_why = why.data;
	}
	return r;
}
