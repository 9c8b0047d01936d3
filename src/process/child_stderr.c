#include "../acp/acp_internal.h"

#include "holdfast/diag.h"

#include <string.h>

#define STDERR_LINE_MAX   ((size_t)1500)
#define STDERR_PER_MINUTE 200
#define WINDOW_MS         60000

bool acp_rate_take(struct acp_rate *r, unsigned per_minute, uint64_t now_ms, unsigned *ret_dropped)
{
	*ret_dropped = 0;
	if (now_ms - r->window_ms >= WINDOW_MS) {
		*ret_dropped = r->dropped;
		*r = (struct acp_rate){.window_ms = now_ms};
	}
	if (r->count >= per_minute) {
		r->dropped++;
		return false;
	}
	r->count++;
	return true;
}

/**
 * The length of the escape sequence at `text` (which begins with ESC): CSI up to its final byte,
 * OSC and other strings up to BEL or ESC \, else two bytes. An unfinished one goes to the end.
 */
static size_t escape_length(const char *text, size_t len)
{
	if (len < 2) {
		return len;
	}
	size_t i = 2;
	if (text[1] == '[') {
		while (i < len && (text[i] < 0x40 || text[i] > 0x7e)) {
			i++;
		}
		return i < len ? i + 1 : len;
	}
	if (text[1] && strchr("]PX^_", text[1])) {
		while (i < len && text[i] != '\a' && text[i] != '\x1b') {
			i++;
		}
		if (i + 1 < len && text[i] == '\x1b') {
			i++;
		}
		return i < len ? i + 1 : len;
	}
	return 2;
}

void acp_diag_clean(struct buffer *out, const char *text, size_t len)
{
	size_t i = 0;
	while (i < len) {
		unsigned char c = (unsigned char)text[i];
		size_t n = acp_utf8_length(text + i, len - i);
		if (c == 0x1b) {
			n = escape_length(text + i, len - i);
		} else if (n == 0) {
			buffer_append_char(out, '?');
			n = 1;
		} else if (c < 0x20 || c == 0x7f) {
			buffer_append_char(out, ' ');
		} else if (n != 2 || c != 0xc2 || (unsigned char)text[i + 1] >= 0xa0) {
			/* What is left out here are the C1 controls, CSI among them. */
			buffer_append(out, text + i, n);
		}
		i += n;
	}
}

static void print_dropped(const char *session_id, unsigned dropped)
{
	if (dropped > 0) {
		diag(DIAG_INFO, "session %s: agent: (%u lines of stderr dropped)", session_id,
			dropped);
	}
}

static void stderr_end_line(struct acp_stderr *e, const char *session_id, uint64_t now_ms)
{
	struct buffer clean = {0};
	acp_diag_clean(&clean, e->line.data, e->line.len);
	while (clean.len > 0 && clean.data[clean.len - 1] == ' ') {
		clean.len--;
	}
	unsigned dropped = 0;
	if (clean.len > 0 && acp_rate_take(&e->rate, STDERR_PER_MINUTE, now_ms, &dropped)) {
		print_dropped(session_id, dropped);
		diag(DIAG_INFO, "session %s: agent: %s", session_id, buffer_cstr(&clean));
	}
	buffer_finish(&clean);
	buffer_clear(&e->line);
}

void acp_stderr_push(struct acp_stderr *e, const char *session_id, const char *bytes, size_t len,
	uint64_t now_ms)
{
	while (len > 0) {
		const char *end = memchr(bytes, '\n', len);
		size_t piece = end ? (size_t)(end - bytes) : len;
		size_t room = STDERR_LINE_MAX - e->line.len;
		buffer_append(&e->line, bytes, piece < room ? piece : room);
		if (!end) {
			return;
		}
		stderr_end_line(e, session_id, now_ms);
		bytes += piece + 1;
		len -= piece + 1;
	}
}

void acp_stderr_finish(struct acp_stderr *e, const char *session_id)
{
	if (e->line.len > 0) {
		stderr_end_line(e, session_id, e->rate.window_ms);
	}
	print_dropped(session_id, e->rate.dropped);
	buffer_finish(&e->line);
	*e = (struct acp_stderr){0};
}
