#include "reading.h"

#include "holdfast/sealed_line.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

struct answer {
	bool came;
	int status;
	size_t count;
	struct buffer *text;
};

static void handle_read(void *arg, int status, struct event **events, size_t count)
{
	struct answer *answer = arg;
	answer->came = true;
	answer->status = status;
	answer->count = count;
	for (size_t i = 0; i < count; i++) {
		event_append_line(events[i], answer->text);
		event_unref(events[i]);
	}
}

int reading_page(struct rig *rig, struct session *session, uint64_t from, uint64_t to,
	struct buffer *ret_text)
{
	struct session_log *log = session_channel(session)->log;
	struct log_page page = {.from = from, .to = to, .max_bytes = 1 << 30};
	struct answer answer = {.text = ret_text};
	struct event **hot = xcalloc((size_t)(to - from + 1), sizeof(struct event *));
	size_t n = session_log_get_hot(log, &page, hot);
	if (n) {
		handle_read(&answer, 0, hot, n);
	} else {
		assert_non_null(session_log_read(log, &page, handle_read, &answer));
	}
	free(hot);
	while (!answer.came) {
		uv_run(&rig->loop, UV_RUN_ONCE);
	}
	return answer.status < 0 ? answer.status : (int)answer.count;
}

void reading_check(
	struct rig *rig, struct session *session, const struct buffer *original, size_t spoilt)
{
	struct buffer text = {0};
	size_t at = 0;
	uint64_t max = session_channel(session)->max_seq;
	for (uint64_t seq = 1; seq <= max; seq++) {
		const char *line = original->data + at;
		size_t len =
			(size_t)((const char *)memchr(line, '\n', original->len - at) - line) + 1;
		bool is_spoilt = (spoilt >= at && spoilt < at + len) || spoilt == at - 1;
		buffer_clear(&text);
		int r = reading_page(rig, session, seq, seq, &text);
		if (is_spoilt && r < 0) {
			assert_int_equal(r, -EBADMSG);
		} else {
			assert_int_equal(r, 1);
			assert_int_equal(text.len, len);
			assert_memory_equal(text.data, line, len);
		}
		at += len;
	}
	buffer_finish(&text);
}
