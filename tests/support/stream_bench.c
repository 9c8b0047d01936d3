#include "stream_bench.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static void next_entry(struct stream_bench *b)
{
	if (b->log.len) {
		buffer_append_str(&b->log, "; ");
	}
}

/** Text in brackets, with line ends that show. */
static void append_text(struct buffer *out, const char *text, size_t len)
{
	buffer_append_char(out, '[');
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\n') {
			buffer_append_str(out, "¶");
		} else {
			buffer_append_char(out, text[i]);
		}
	}
	buffer_append_char(out, ']');
}

static void append_string(struct buffer *out, const json_t *string)
{
	append_text(out, json_string_value(string), json_string_length(string));
}

static void append_message(struct stream_bench *b, const json_t *data)
{
	const json_t *markdown = json_object_get(data, "markdown");
	const json_t *continues = json_object_get(data, "continues");
	const json_t *context = json_object_get(data, "context");
	const json_t *start = json_object_get(data, "start");
	assert_true(json_is_string(markdown));
	buffer_append(&b->text, json_string_value(markdown), json_string_length(markdown));
	buffer_append_str(&b->log, " message ");
	append_string(&b->log, markdown);
	if (continues) {
		buffer_printf(&b->log, " continues %lld", (long long)json_integer_value(continues));
	}
	if (context) {
		buffer_append_str(&b->log, " context ");
		append_string(&b->log, context);
	}
	if (start) {
		buffer_printf(&b->log, " start %lld", (long long)json_integer_value(start));
	}
}

static void handle_emit(void *owner, const struct event_view *view)
{
	struct stream_bench *b = owner;
	assert_int_equal(view->seq, b->last_seq + 1);
	b->last_seq = view->seq;
	json_t *data = json_loadb(view->data, view->data_len, 0, NULL);
	if (!data) {
		fail_msg("seq %d has data that is no JSON: %.*s", (int)view->seq,
			(int)view->data_len, view->data);
	}
	next_entry(b);
	buffer_append_u64(&b->log, view->seq);
	if (view->type == EVENT_AGENT_MESSAGE) {
		append_message(b, data);
	} else if (view->type == EVENT_AGENT_THOUGHT) {
		buffer_append_str(&b->log, " thought ");
		append_string(&b->log, json_object_get(data, "text"));
	} else {
		assert_true(view->type < EVENT_MESSAGE_CHUNK);
		assert_true(view->type != EVENT_CUSTOM || view->type_len == 6);
		buffer_printf(&b->log, " %s",
			view->type == EVENT_CUSTOM ? "x-test" : event_type_name(view->type));
	}
	if (view->message_id) {
		buffer_printf(&b->log, " of %.*s", (int)view->message_id_len, view->message_id);
	}
	json_decref(data);
	if (b->watch) {
		b->watch(b->watch_arg, view);
	}
}

static void handle_held(void *owner, uint64_t seq, const struct stream_input *input)
{
	struct stream_bench *b = owner;
	assert_true(seq > b->last_seq);
	next_entry(b);
	buffer_printf(&b->log, "(%llu %s)", (unsigned long long)seq,
		input->type == EVENT_THOUGHT_CHUNK ? "thought"
		: input->type == EVENT_CUSTOM      ? "x-test"
						   : event_type_name(input->type));
}

static const struct stream_buffer_ops ops = {.emit = handle_emit, .held = handle_held};

void stream_bench_init(struct stream_bench *b)
{
	*b = (struct stream_bench){.limits = *limits_default(), .now = 1000, .turn = 1};
	b->sb = stream_buffer_create(&b->limits, 1, &ops, b);
}

void stream_bench_finish(struct stream_bench *b)
{
	stream_buffer_destroy(b->sb);
	buffer_finish(&b->log);
	buffer_finish(&b->text);
}

static uint64_t put_as_it_is(struct stream_bench *b, enum event_type type, const char *message_id,
	const char *data, size_t len)
{
	return stream_buffer_put(
		b->sb, &(struct stream_input){.type = type,
			       .type_name = type == EVENT_CUSTOM ? "x-test" : NULL,
			       .type_len = type == EVENT_CUSTOM ? 6 : 0,
			       .message_id = message_id,
			       .message_id_len = message_id ? strlen(message_id) : 0,
			       .data = data,
			       .data_len = len,
			       .ts = b->now,
			       .at = b->now,
			       .turn = b->turn});
}

static uint64_t put(struct stream_bench *b, enum event_type type, const char *message_id,
	const char *data, size_t len)
{
	stream_buffer_take_sizes(b->sb);
	return put_as_it_is(b, type, message_id, data, len);
}

uint64_t stream_bench_say_on(struct stream_bench *b, const char *text)
{
	return put_as_it_is(b, EVENT_MESSAGE_CHUNK, NULL, text, strlen(text));
}

uint64_t stream_bench_put_on(struct stream_bench *b, enum event_type type)
{
	return put_as_it_is(b, type, NULL, "{}", 2);
}

uint64_t stream_bench_say_n(struct stream_bench *b, const char *text, size_t len)
{
	return put(b, EVENT_MESSAGE_CHUNK, NULL, text, len);
}

uint64_t stream_bench_say(struct stream_bench *b, const char *text)
{
	return stream_bench_say_n(b, text, strlen(text));
}

uint64_t stream_bench_say_as(struct stream_bench *b, const char *message_id, const char *text)
{
	return put(b, EVENT_MESSAGE_CHUNK, message_id, text, strlen(text));
}

uint64_t stream_bench_think(struct stream_bench *b, const char *text)
{
	return put(b, EVENT_THOUGHT_CHUNK, NULL, text, strlen(text));
}

uint64_t stream_bench_put(struct stream_bench *b, enum event_type type)
{
	return put(b, type, NULL, "{}", 2);
}

uint64_t stream_bench_end_turn(struct stream_bench *b)
{
	stream_buffer_finish_turn(b->sb);
	assert_true(stream_buffer_is_idle(b->sb));
	uint64_t seq = stream_bench_put(b, EVENT_TURN_END);
	b->turn++;
	return seq;
}

void stream_bench_wait(struct stream_bench *b, int64_t now, enum stream_flush flush)
{
	b->now = now;
	assert_int_equal(stream_buffer_due(b->sb, now), flush);
	stream_buffer_flush(b->sb, flush);
}

void stream_bench_expect(struct stream_bench *b, const char *what)
{
	assert_string_equal(buffer_cstr(&b->log), what);
	buffer_clear(&b->log);
}

void stream_bench_reload(struct stream_bench *b)
{
	struct buffer state = {0};
	struct buffer again = {0};
	stream_buffer_save(b->sb, &state);
	stream_buffer_destroy(b->sb);
	b->sb = stream_buffer_create(&b->limits, 1, &ops, b);
	struct unpack in = {.bytes = state.data, .len = state.len};
	assert_int_equal(stream_buffer_load(b->sb, &in, STREAM_FORMAT_NOW), 0);
	assert_int_equal(in.len, 0);
	stream_buffer_save(b->sb, &again);
	assert_int_equal(again.len, state.len);
	assert_memory_equal(again.data, state.data, state.len);
	buffer_finish(&state);
	buffer_finish(&again);
}

int stream_bench_setup(void **state)
{
	struct stream_bench *b = xmalloc(sizeof(*b));
	stream_bench_init(b);
	*state = b;
	return 0;
}

int stream_bench_teardown(void **state)
{
	stream_bench_finish(*state);
	free(*state);
	return 0;
}
