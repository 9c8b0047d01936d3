#include "child_stderr.h"

#include "holdfast/agent_env.h"

#include <string.h>

#define LINE_MAX_BYTES   ((size_t)1500)
#define LINES_PER_MINUTE 200
#define LAST_LINES       12
#define LAST_MAX_BYTES   ((size_t)4096)

static void print_dropped(const char *session_id, unsigned dropped)
{
	if (dropped > 0) {
		diag(DIAG_INFO, "session %s: agent: (%u lines of stderr dropped)", session_id,
			dropped);
	}
}

void child_stderr_note(struct child_stderr *e, const char *line, size_t len)
{
	buffer_append(&e->last, line, len < LINE_MAX_BYTES ? len : LINE_MAX_BYTES);
	buffer_append_char(&e->last, '\n');
	e->last_count++;
	while (e->last_count > LAST_LINES || e->last.len > LAST_MAX_BYTES) {
		const char *end = memchr(e->last.data, '\n', e->last.len);
		buffer_consume(&e->last, (size_t)(end - e->last.data) + 1);
		e->last_count--;
	}
}

void child_stderr_last(const struct child_stderr *e, char *const *env, struct buffer *out)
{
	struct buffer all = {0};
	struct buffer shown = {0};
	buffer_append(&all, e->last.data, e->last.len);
	buffer_append(&all, e->line.data, e->line.len);
	agent_env_hide(env, all.data, all.len, &shown);
	for (size_t at = 0; at < shown.len;) {
		const char *line = shown.data + at;
		const char *end = memchr(line, '\n', shown.len - at);
		size_t len = end ? (size_t)(end - line) : shown.len - at;
		if (at > 0) {
			buffer_append_char(out, '\n');
		}
		diag_clean(out, line, len);
		at += len + 1;
	}
	buffer_finish(&all);
	buffer_finish(&shown);
}

static void stderr_end_line(struct child_stderr *e, const char *session_id, uint64_t now_ms)
{
	struct buffer clean = {0};
	diag_clean(&clean, e->line.data, e->line.len);
	while (clean.len > 0 && clean.data[clean.len - 1] == ' ') {
		clean.len--;
	}
	unsigned dropped = 0;
	if (clean.len > 0 && diag_rate_take(&e->rate, LINES_PER_MINUTE, now_ms, &dropped)) {
		print_dropped(session_id, dropped);
		diag(DIAG_INFO, "session %s: agent: %s", session_id, buffer_cstr(&clean));
	}
	if (clean.len > 0) {
		child_stderr_note(e, e->line.data, e->line.len);
	}
	buffer_finish(&clean);
	buffer_clear(&e->line);
}

void child_stderr_push(struct child_stderr *e, const char *session_id, const char *bytes,
	size_t len, uint64_t now_ms)
{
	while (len > 0) {
		const char *end = memchr(bytes, '\n', len);
		size_t piece = end ? (size_t)(end - bytes) : len;
		size_t room = LINE_MAX_BYTES - e->line.len;
		buffer_append(&e->line, bytes, piece < room ? piece : room);
		if (!end) {
			return;
		}
		stderr_end_line(e, session_id, now_ms);
		bytes += piece + 1;
		len -= piece + 1;
	}
}

void child_stderr_finish(struct child_stderr *e, const char *session_id)
{
	if (e->line.len > 0) {
		stderr_end_line(e, session_id, e->rate.window_ms);
	}
	print_dropped(session_id, e->rate.dropped);
	buffer_finish(&e->line);
	buffer_finish(&e->last);
	*e = (struct child_stderr){0};
}
