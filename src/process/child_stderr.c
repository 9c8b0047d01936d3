#include "holdfast/child_stderr.h"

#include <string.h>

#define LINE_MAX_BYTES   ((size_t)1500)
#define LINES_PER_MINUTE 200

static void print_dropped(const char *session_id, unsigned dropped)
{
	if (dropped > 0) {
		diag(DIAG_INFO, "session %s: agent: (%u lines of stderr dropped)", session_id,
			dropped);
	}
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
	*e = (struct child_stderr){0};
}
