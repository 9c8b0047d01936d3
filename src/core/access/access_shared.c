/*
 * Tokens and logins that several servers on one store share: the lines of access.jsonl are on the
 * shelf, which each server polls for lines of the others. When a server starts, it moves the lines
 * of its own file to the shelf: those of commands, and those from before it used the shelf. The
 * file keeps the lines that `holdfast token list` shows.
 */
#include "access_internal.h"

#include "holdfast/line_file.h"

#include "holdfast/beneath.h"
#include "holdfast/loop.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* How often the shelf is polled (ms): a revocation takes effect everywhere within a second. */
#define LOOK_MS 400
/*
 * A server that could not poll for this long (ms) reads all lines again, because it may have missed
 * some: obsolete lines are removed from the shelf when they are a day old.
 */
#define ANEW_MS ((int64_t)12 * 3600 * 1000)

static int64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static bool begins_with(const char *line, size_t len, const char *begin)
{
	return len >= strlen(begin) && memcmp(line, begin, strlen(begin)) == 0;
}

static bool is_note(const char *line, size_t len)
{
	return begins_with(line, len, "{\"created\":");
}

static bool is_revocation(const char *line, size_t len)
{
	return begins_with(line, len, "{\"revoked\":");
}

/**
 * Appends the lines for which is_wanted() returns `wanted`, without the first `skip` bytes of each.
 */
static void pick(const struct buffer *lines, size_t skip,
	bool (*is_wanted)(const char *line, size_t len), bool wanted, struct buffer *out)
{
	const char *at = lines->data;
	const char *end = at + lines->len;
	const char *newline;
	while (at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
		size_t len = (size_t)(newline + 1 - at) - skip;
		if (is_wanted(at + skip, len) == wanted) {
			buffer_append(out, at + skip, len);
		}
		at = newline + 1;
	}
}

static bool is_any(const char *line, size_t len)
{
	return true;
}

/* --- startup --- */

/** Moves the file's lines to the shelf, and reads those of the shelf into access.look.lines. */
static int change_file(void *arg, const struct buffer *lines, struct buffer *ret_kept)
{
	struct access *access = arg;
	const struct shelf *shelf = access->config.shelf;
	struct buffer given = {0};
	pick(lines, 0, is_note, false, &given);
	int r = given.len ? shelf->append(shelf->arg, given.data, given.len, true) : 0;
	buffer_finish(&given);
	r = r < 0 ? r : shelf->read(shelf->arg, &access->look.at, &access->look.lines);
	pick(lines, 0, is_note, true, ret_kept);
	pick(&access->look.lines, 1, is_revocation, true, ret_kept);
	return r;
}

static int take_all(struct access *access)
{
	const struct shelf *shelf = access->config.shelf;
	struct buffer lines = {0};
	struct buffer kept = {0};
	struct buffer rest = {0};
	size_t line;
	pick(&access->look.lines, 1, is_any, true, &lines);
	int r = lines.len ? access_take_lines(access, lines.data, lines.len, &line) : 0;
	if (r == 0 && lines.len) {
		access->now_ms = clock_now_ms(access->config.clock);
		access_sort_lines(access, &lines, &kept, &rest);
	}
	if (rest.len) {
		(void)shelf->forget(
			shelf->arg, rest.data, rest.len); /* the next start tries again */
	}
	buffer_clear(&access->look.lines);
	buffer_finish(&lines);
	buffer_finish(&kept);
	buffer_finish(&rest);
	return r;
}

/* --- polling --- */

/** Marks the grant of a login as ended, for connections that use it. */
static void end(struct login *login)
{
	if (login) {
		login->grant->is_over = true;
	}
}

/** Applies a line. Returns whether grants must be checked again. */
static bool take_line(struct access *access, bool is_own, const char *line, size_t len)
{
	json_t *json = access_line_read(line, len);
	const json_t *made = json_object_get(json, "login");
	const json_t *push = json_object_get(json, "push");
	const json_t *revoked = json_object_get(json, "revoked");
	const char *id = json_string_value(json_object_get(made, "cookie"));
	const char *ended = json_string_value(json_object_get(json, "logout"));
	if (push) {
		access_take_push(access, push); /* also our own: the order on the shelf decides */
	} else if (!is_own && id && !hash_get(access->logins, id, strlen(id))) {
		access_take_login(access, made);
	} else if (!is_own && ended) {
		end(hash_get(access->logins, ended, strlen(ended)));
		access_take_logout(access, ended);
	} else if (!is_own && revoked) {
		access_take_revocation(access, revoked);
	}
	json_decref(json);
	return !is_own && (ended || revoked);
}

static void forget_logins(struct access *access)
{
	while (!list_empty(&access->login_list)) {
		struct login *login = list_entry(access->login_list.next, struct login, link);
		login->grant->is_over = true;
		access_take_logout(access, login->cookie_sum);
	}
}

static bool take_news(struct access *access)
{
	const struct access_look *look = &access->look;
	bool changes = look->is_anew;
	const char *at = look->lines.data;
	const char *end_of_all = at + look->lines.len;
	const char *newline;
	if (look->is_anew) {
		forget_logins(access);
	}
	while (at < end_of_all && (newline = memchr(at, '\n', (size_t)(end_of_all - at)))) {
		bool is_own = *at == '=' && !look->is_anew;
		changes = take_line(access, is_own, at + 1, (size_t)(newline - at - 1)) || changes;
		at = newline + 1;
	}
	return changes;
}

static void look_work(uv_work_t *work)
{
	struct access *access = work->data;
	struct access_look *look = &access->look;
	const struct shelf *shelf = access->config.shelf;
	struct buffer revocations = {0};
	uint64_t at = look->is_anew ? 0 : look->at;
	look->status = shelf->read(shelf->arg, &at, &look->lines);
	look->at = look->status == 0 ? at : look->at;
	pick(&look->lines, 1, is_revocation, true, &revocations);
	if (look->status == 0 && revocations.len && !look->is_anew) {
		(void)line_file_append(access->path, revocations.data, revocations.len);
	}
	buffer_finish(&revocations);
}

static void look_done(uv_work_t *work, int status)
{
	struct access *access = work->data;
	struct access_look *look = &access->look;
	const struct shelf *shelf = access->config.shelf;
	shelf->hold(shelf->arg, false);
	look->is_working = false;
	if (look->status == 0) {
		look->seen_ms = look->begun_ms;
		if (take_news(access)) {
			access->config.revoked(access->config.owner);
		}
	}
	buffer_clear(&look->lines);
}

static void handle_timer(uv_timer_t *timer)
{
	struct access *access = timer->data;
	struct access_look *look = &access->look;
	const struct shelf *shelf = access->config.shelf;
	if (look->is_working) {
		return;
	}
	look->begun_ms = now_ms();
	look->is_anew = look->begun_ms - look->seen_ms > ANEW_MS;
	look->work.data = access;
	look->is_working = true;
	shelf->hold(shelf->arg, true);
	uv_queue_work(access->config.loop, &look->work, look_work, look_done);
}

int access_shared_load(struct access *access, char **ret_why)
{
	struct access_look *look = &access->look;
	look->seen_ms = now_ms();
	int r = line_file_change(access->path, change_file, access);
	r = r < 0 ? r : take_all(access);
	if (r < 0) {
		*ret_why = xprintf(
			"the tokens and logins in the database, or those in %s, cannot be read or written: %s",
			access->path, file_error(-r));
		return r;
	}
	look->timer = loop_timer(access->config.loop, access);
	uv_timer_start(look->timer, handle_timer, LOOK_MS, LOOK_MS);
	return 0;
}

void access_stop(struct access *access)
{
	if (access && access->look.timer) {
		loop_close(access->look.timer);
		access->look.timer = NULL;
	}
}
