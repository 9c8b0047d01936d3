/*
 * access.jsonl: what is known of tokens and logins. Lines are appended, by the server and by
 * commands beside it, each with a lock on the file; what a crash left of the last one is cut off by
 * the next. When the file has grown, the server writes it anew, without what counts no more.
 */
#include "access_internal.h"

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

/* A file of fewer bytes is not written anew, and none before it has become twice as large. */
#define ANEW_MIN ((size_t)256 * 1024)

/** A line as JSON; NULL if it is damaged. */
json_t *access_line_read(const char *line, size_t len)
{
	size_t body;
	return sealed_line_check(line, len, &body) ? json_loadb(line, len, 0, NULL) : NULL;
}

/** Notes a line that says that a login has ended. */
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

/** Notes the newest line about the push subscription of a login. */
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

/** What was found in a file that is written anew. */
struct keeping {
	struct hash *ended; /* logins that have ended: any value */
	struct hash *pushes; /* the newest line about its push subscription, by login */
	struct hash *logins; /* that are kept: any value */
};

/** Whether it is the newest line of a login that is kept, and has not taken the subscription back. */
static bool push_counts(const json_t *push, const char *line, const struct keeping *keeping)
{
	const char *login = json_string_value(json_object_get(push, "login"));
	return login && json_object_get(push, "endpoint") &&
	       hash_get(keeping->logins, login, strlen(login)) &&
	       hash_get(keeping->pushes, login, strlen(login)) == line;
}

/** Whether a line still says something that counts; a damaged one is for the next start to tell. */
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

/** If it has grown so much. With the lock: what a command appends meanwhile goes to the new file. */
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
		access->anew_size = 2 * (size_t)st.st_size; /* if it fails, later */
		if (line_file_read_all(fd, &bytes) == 0 && bytes.len == (size_t)st.st_size) {
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
	json_decref(json); /* what was made is for `holdfast token list` */
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

int access_file_load(struct access *access, char **ret_why)
{
	struct buffer bytes = {0};
	size_t line = 0;
	int r = line_file_read(access->path, &bytes);
	if (r == 0 && bytes.len) {
		r = access_take_lines(access, bytes.data, bytes.len, &line);
	}
	access->anew_size = ANEW_MIN;
	access->now_ms = clock_now_ms(access->config.clock);
	if (r == 0 && bytes.len > ANEW_MIN) {
		write_anew(access);
	}
	buffer_finish(&bytes);
	struct buffer why = {0};
	if (r == -EBADMSG) {
		buffer_printf(&why,
			"%s is damaged in line %zu: revocations may be lost. Take the line out if you can tell what it was, or move the file away: then all logins end, and revoked tokens count again",
			access->path, line);
	} else if (r < 0) {
		buffer_printf(&why, "%s cannot be read or written: %s", access->path, strerror(-r));
	}
	if (r < 0) {
		buffer_cstr(&why);
		*ret_why = why.data;
	}
	return r;
}
