#include "buffer_story.h"

#include "fuzz.h"

#include <jansson.h>

static const char *const message_ids[] = {NULL, "m1", "m2"};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_prefix(const struct buffer *prefix, const char *text, size_t len)
{
	return prefix->len <= len && (!prefix->len || memcmp(prefix->data, text, prefix->len) == 0);
}

/* --- what is emitted --- */

/* What an event has must be what was shown of it while it was open. */
static void check_shown(struct story *s, uint64_t seq, const char *text, size_t len)
{
	if (s->shown_seq == seq) {
		fuzz_check(is_prefix(&s->shown, text, len), "an event begins with what was shown");
		s->shown_seq = 0;
	}
}

/* The index of an event's message id. */
static int index_of_id(const struct event_view *view)
{
	int index = 0;
	while (view->message_id && index < 3 &&
		(index == 0 || view->message_id_len != 2 ||
			memcmp(view->message_id, message_ids[index], 2) != 0)) {
		index++;
	}
	fuzz_check(index < 3, "a message id is one that was given");
	return index;
}

/* An event has the id of its text, all of which has the same. */
static void check_message_id(const struct story *s, const struct event_view *view, size_t from)
{
	int id = index_of_id(view);
	bool any = false;
	/* Blanks that were not kept move what is behind them: then the ids cannot be told. */
	if (!is_prefix(&s->emitted, s->said.data, s->said.len)) {
		return;
	}
	for (size_t i = from; i < s->emitted.len; i++) {
		bool ink = !is_blank(s->emitted.data[i]);
		any = any || ink;
		fuzz_check(!ink || s->said_ids.data[i] == id, "a message has its text's id");
	}
	fuzz_check(any, "a message is not blank");
}

static void emit_message(struct story *s, const struct event_view *view, const json_t *data)
{
	const json_t *markdown = json_object_get(data, "markdown");
	const json_t *continues = json_object_get(data, "continues");
	const json_t *context = json_object_get(data, "context");
	const json_t *start = json_object_get(data, "start");
	const char *text = json_string_value(markdown);
	size_t len = json_string_length(markdown);
	size_t from = s->emitted.len;
	fuzz_check(text != NULL, "a message has text");
	fuzz_check(len <= s->limits.block_size + 3, "a message is not larger than the cap");
	check_shown(s, view->seq, text, len);
	buffer_append(&s->emitted, text, len);
	check_message_id(s, view, from);
	fuzz_check(!continues || (uint64_t)json_integer_value(continues) == s->message_seq,
		"a message continues the one before it");
	fuzz_check(!context || (continues && json_string_length(context) > 0),
		"only what continues has a context");
	fuzz_check(!start || (continues && json_integer_value(start) > 0),
		"only what continues has a number");
	s->message_seq = view->seq;
}

static void emit_thought(struct story *s, const struct event_view *view, const json_t *data)
{
	const json_t *text = json_object_get(data, "text");
	fuzz_check(json_string_length(text) > 0, "a thought has text");
	check_shown(s, view->seq, json_string_value(text), json_string_length(text));
	buffer_append(&s->thought_emitted, json_string_value(text), json_string_length(text));
}

static void emit_other(struct story *s, const struct event_view *view, const json_t *data)
{
	fuzz_check((uint64_t)json_integer_value(json_object_get(data, "n")) == s->emitted_count,
		"the others come in the order in which they were put");
	fuzz_check(view->type < EVENT_MESSAGE_CHUNK, "chunks are no events");
	fuzz_check((view->type == EVENT_CUSTOM) == (view->type_len == 3), "a name is kept");
	s->emitted_count++;
}

static void handle_emit(void *owner, const struct event_view *view)
{
	struct story *s = owner;
	fuzz_check(view->seq == s->last_seq + 1, "seqs have no gap");
	fuzz_check(view->seq < SEQS_MAX, "no more seqs than inputs");
	fuzz_check(view->turn == s->turn && view->ts <= s->now, "an event is of its turn");
	s->last_seq = view->seq;
	s->came[view->seq] = (uint8_t)(view->type + 1);
	buffer_printf(&s->log, "%llu %d %lld %.*s %.*s\n", (unsigned long long)view->seq,
		(int)view->type, (long long)view->ts, (int)view->message_id_len,
		view->message_id ? view->message_id : "", (int)view->data_len, view->data);
	json_t *data = json_loadb(view->data, view->data_len, JSON_ALLOW_NUL, NULL);
	fuzz_check(json_is_object(data), "an event's data is JSON");
	if (view->type == EVENT_AGENT_MESSAGE) {
		emit_message(s, view, data);
	} else if (view->type == EVENT_AGENT_THOUGHT) {
		emit_thought(s, view, data);
	} else {
		emit_other(s, view, data);
	}
	json_decref(data);
	s->held_count -= s->held[view->seq];
	s->held_size = s->held_count ? s->held_size : 0;
}

static void handle_held(void *owner, uint64_t seq, const struct stream_input *input)
{
	struct story *s = owner;
	fuzz_check(seq > s->last_seq && seq < SEQS_MAX, "what is held comes later");
	s->held_count++;
	s->held_size += input->data_len + 128;
	s->held[seq] = true;
	buffer_printf(&s->log, "(%llu %d)\n", (unsigned long long)seq, (int)input->type);
}

static const struct stream_buffer_ops ops = {.emit = handle_emit, .held = handle_held};

/* --- inputs --- */

static uint64_t put(
	struct story *s, enum event_type type, unsigned message_id, const char *data, size_t len)
{
	bool custom = type == EVENT_CUSTOM;
	/* Borrowed during the call only: a copy of its own. */
	char *copy = xmalloc(len);
	memcpy(copy, data, len);
	s->input_ts = s->now;
	uint64_t seq = stream_buffer_put(s->sb, &(struct stream_input){
							.type = type,
							.type_name = custom ? "x-a" : NULL,
							.type_len = custom ? 3 : 0,
							.message_id = message_ids[message_id],
							.message_id_len = message_id ? 2 : 0,
							.data = copy,
							.data_len = len,
							.ts = s->now,
							.at = s->now,
							.turn = s->turn,
						});
	free(copy);
	fuzz_check(seq < stream_buffer_next_seq(s->sb), "a seq that is given is taken");
	return seq;
}

/* What was given a seq for one thing must not come as another. */
static void check_given(struct story *s, uint64_t seq, enum event_type type)
{
	fuzz_check(seq > 0, "it has a seq");
	fuzz_check(!s->came[seq] || s->came[seq] == type + 1, "what comes has its own seq");
}

void story_say(struct story *s, const struct step *step, const char *text, size_t len)
{
	size_t had = s->said_ids.len;
	buffer_append(&s->said, text, len);
	buffer_reserve(&s->said_ids, len);
	/* Text without an id is of the message before it. */
	s->message_id = step->message_id ? step->message_id : s->message_id;
	memset(s->said_ids.data + had, (int)s->message_id, len);
	s->said_ids.len += len;
	uint64_t seq = put(s, EVENT_MESSAGE_CHUNK, step->message_id, text, len);
	if (seq) {
		check_given(s, seq, EVENT_AGENT_MESSAGE);
	}
}

static void think(struct story *s, const struct step *step, const char *text)
{
	buffer_append(&s->thought, text, step->len);
	uint64_t seq = put(s, EVENT_THOUGHT_CHUNK, step->message_id, text, step->len);
	check_given(s, seq, EVENT_AGENT_THOUGHT);
}

static void put_other(struct story *s, enum event_type type)
{
	char data[32];
	uint64_t was = stream_buffer_next_seq(s->sb);
	snprintf(data, sizeof(data), "{\"n\":%u}", s->put_count++);
	uint64_t seq = put(s, type, 0, data, strlen(data));
	check_given(s, seq, type);
	fuzz_check(seq >= was, "its seq is a new one");
}

/* --- time --- */

static void wait(struct story *s, unsigned number)
{
	static const int64_t steps[] = {10, 199, 200, 500, 2000, 10000, 30000, 1};
	struct stream_buffer *sb = s->sb;
	s->now += steps[number % (sizeof(steps) / sizeof(steps[0]))];
	for (int flushes = 0;; flushes++) {
		enum stream_flush flush = stream_buffer_due(sb, s->now);
		if (flush == STREAM_FLUSH_NONE) {
			break;
		}
		fuzz_check(stream_buffer_deadline(sb) <= s->now, "nothing is due too early");
		fuzz_check(flushes == 0, "a flush does not make another one due");
		stream_buffer_flush(sb, flush);
	}
	fuzz_check(!s->held_count || s->now < s->input_ts + s->limits.hold_fence_ms,
		"nothing is held for long");
}

/* --- turns --- */

/* Whether there are so many blanks in a row that they are not kept. */
static bool has_long_blanks(const struct story *s)
{
	size_t blanks = 0;
	for (size_t i = 0; i < s->said.len && blanks < s->limits.block_size; i++) {
		blanks = is_blank(s->said.data[i]) ? blanks + 1 : 0;
	}
	return blanks >= s->limits.block_size;
}

/* The blanks at the end of a turn belong to no event. */
static void check_text(const struct story *s)
{
	bool whole = !has_long_blanks(s);
	size_t at = 0;
	for (size_t i = 0; i < s->said.len; i++) {
		bool same = at < s->emitted.len && s->emitted.data[at] == s->said.data[i];
		fuzz_check(same || is_blank(s->said.data[i]), "no text is lost");
		fuzz_check(same || !whole || at == s->emitted.len, "no blanks are lost");
		at += same;
	}
	fuzz_check(at == s->emitted.len, "no text is added");
}

static void end_turn(struct story *s)
{
	stream_buffer_finish_turn(s->sb);
	fuzz_check(stream_buffer_is_idle(s->sb), "nothing is left of a turn");
	fuzz_check(s->last_seq + 1 == stream_buffer_next_seq(s->sb), "no seq was taken in vain");
	fuzz_check(
		s->last_seq == stream_buffer_emitted_seq(s->sb), "the last one emitted is known");
	fuzz_check(stream_buffer_deadline(s->sb) == INT64_MAX, "nothing is due");
	check_text(s);
	fuzz_check(s->thought.len == s->thought_emitted.len &&
			   is_prefix(&s->thought, s->thought_emitted.data, s->thought.len),
		"every thought came once");
	fuzz_check(s->put_count == s->emitted_count, "everything came once");
	fuzz_check(s->held_count == 0, "nothing is held any more");
	put_other(s, EVENT_TURN_END);
	buffer_clear(&s->said);
	buffer_clear(&s->said_ids);
	s->message_id = 0;
	buffer_clear(&s->emitted);
	buffer_clear(&s->thought);
	buffer_clear(&s->thought_emitted);
	s->turn++;
}

void story_do(struct story *s, const struct step *step, const char *text)
{
	switch (step->kind) {
	case STEP_THOUGHT:
		think(s, step, text);
		break;
	case STEP_TOOL_CALL:
		put_other(s, EVENT_TOOL_CALL);
		break;
	case STEP_TOOL_CALL_UPDATE:
		put_other(s, EVENT_TOOL_CALL_UPDATE);
		break;
	case STEP_PERMISSION_REQUEST:
		put_other(s, EVENT_PERMISSION_REQUEST);
		fuzz_check(s->put_count == s->emitted_count, "a request is never held");
		break;
	case STEP_CUSTOM:
		put_other(s, EVENT_CUSTOM);
		break;
	case STEP_WAIT:
		wait(s, step->number);
		break;
	case STEP_TURN_END:
		end_turn(s);
		break;
	default:
		break;
	}
}

/* --- looking, saving --- */

void story_look(struct story *s)
{
	struct stream_open open;
	stream_buffer_get_open(s->sb, &open);
	fuzz_check(open.seq || !open.len, "what is not open has no text");
	if (!open.seq) {
		return;
	}
	fuzz_check(open.seq == s->last_seq + 1, "the next event is the open one");
	if (s->shown_seq != open.seq) {
		s->shown_seq = open.seq;
		buffer_clear(&s->shown);
	}
	fuzz_check(is_prefix(&s->shown, open.text, open.len), "what was shown stays");
	for (size_t at = s->shown.len; at < open.len;) {
		size_t len = fuzz_utf8_length(open.text + at, open.len - at);
		fuzz_check(len > 0, "what is shown is whole characters");
		buffer_append(&s->shown, open.text + at, len);
		at += len;
	}
}

static void load(struct story *s, const struct buffer *state)
{
	struct unpack in = {.bytes = state->data, .len = state->len};
	stream_buffer_destroy(s->sb);
	s->sb = stream_buffer_create(&s->limits, 1, &ops, s);
	fuzz_check(stream_buffer_load(s->sb, &in, STREAM_FORMAT_NOW) == 0 && !in.len,
		"a state can be loaded");
}

void story_reload(struct story *s)
{
	struct buffer state = {0};
	struct buffer again = {0};
	int64_t deadline = stream_buffer_deadline(s->sb);
	stream_buffer_save(s->sb, &state);
	load(s, &state);
	stream_buffer_save(s->sb, &again);
	fuzz_check(state.len == again.len && memcmp(state.data, again.data, state.len) == 0,
		"a loaded state is saved as the same bytes");
	fuzz_check(stream_buffer_deadline(s->sb) == deadline, "the same flush is due");
	/* The scanner keeps a line and a context of 4 KiB each. */
	size_t most = 12 * 1024 + 2 * s->limits.block_size + s->limits.thought_size + s->held_size +
		      s->thought.len;
	fuzz_check(state.len <= most, "a state is bounded");
	buffer_finish(&state);
	buffer_finish(&again);
}

/* --- spoilt states --- */

struct spoilt {
	uint64_t last_seq;
	unsigned sum; /* so that every byte of an event is read */
};

static void emit_spoilt(void *owner, const struct event_view *view)
{
	struct spoilt *sp = owner;
	fuzz_check(view->seq == sp->last_seq + 1, "seqs have no gap, whatever was loaded");
	sp->last_seq = view->seq;
	for (size_t i = 0; i < view->data_len; i++) {
		sp->sum += (unsigned char)view->data[i];
	}
}

static void hold_spoilt(void *owner, uint64_t seq, const struct stream_input *input)
{
	struct spoilt *sp = owner;
	fuzz_check(seq > sp->last_seq, "what is held comes later");
}

static void go_on_spoilt(struct stream_buffer *sb, int64_t now)
{
	static const struct stream_input inputs[] = {
		{.type = EVENT_MESSAGE_CHUNK, .data = "a\n\n- é\n", .data_len = 8},
		{.type = EVENT_TOOL_CALL, .data = "{}", .data_len = 2},
		{.type = EVENT_THOUGHT_CHUNK, .data = "hm", .data_len = 2},
		{.type = EVENT_MESSAGE_CHUNK, .data = "\n```\n|-|\n", .data_len = 9},
		{.type = EVENT_PERMISSION_REQUEST, .data = "{}", .data_len = 2},
		{.type = EVENT_MESSAGE_CHUNK, .data = "\n```\nb", .data_len = 6},
	};
	for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++) {
		struct stream_open open;
		struct buffer shown = {0};
		stream_buffer_get_open(sb, &open);
		buffer_append(&shown, open.text, open.len);
		buffer_append(&shown, open.context, open.context_len);
		buffer_finish(&shown);
		stream_buffer_flush(sb, stream_buffer_due(sb, now + 100000 * (int64_t)i));
		stream_buffer_put(sb, &inputs[i]);
	}
	stream_buffer_finish_turn(sb);
	fuzz_check(stream_buffer_is_idle(sb), "nothing is left of a turn, whatever was loaded");
}

static void load_spoilt(const struct story *s, const char *bytes, size_t len)
{
	static const struct stream_buffer_ops spoilt_ops = {
		.emit = emit_spoilt, .held = hold_spoilt};
	struct spoilt sp = {0};
	struct unpack in = {.bytes = bytes, .len = len};
	struct stream_buffer *sb = stream_buffer_create(&s->limits, 1, &spoilt_ops, &sp);
	int r = stream_buffer_load(sb, &in, STREAM_FORMAT_NOW);
	fuzz_check(r == 0 || stream_buffer_is_idle(sb), "a refused state leaves nothing");
	if (r == 0) {
		sp.last_seq = stream_buffer_emitted_seq(sb);
		go_on_spoilt(sb, s->now);
	}
	stream_buffer_destroy(sb);
}

void story_spoil(struct story *s, const uint8_t *bytes, size_t len)
{
	struct buffer state = {0};
	load_spoilt(s, (const char *)bytes, len);
	stream_buffer_save(s->sb, &state);
	for (size_t i = 0; i + 2 < len; i += 3) {
		size_t at = (size_t)(bytes[i] << 8 | bytes[i + 1]) % state.len;
		state.data[at] = (char)(state.data[at] ^ bytes[i + 2]);
	}
	load_spoilt(s, state.data, state.len);
	buffer_finish(&state);
}

/* --- life --- */

void story_begin(struct story *s, const struct steps *steps)
{
	memset(s, 0, sizeof(*s));
	s->limits = *limits_default();
	if (steps->limits) {
		s->limits.block_size = 16 + steps->limits;
		s->limits.paragraph_flush_size = 4 + steps->limits / 4;
		s->limits.thought_size = 9;
	}
	s->now = 1000;
	s->turn = 1;
	s->sb = stream_buffer_create(&s->limits, 1, &ops, s);
}

void story_end(struct story *s)
{
	end_turn(s);
	buffer_cstr(&s->log);
}

void story_free(struct story *s)
{
	stream_buffer_destroy(s->sb);
	buffer_finish(&s->log);
	buffer_finish(&s->said);
	buffer_finish(&s->said_ids);
	buffer_finish(&s->emitted);
	buffer_finish(&s->thought);
	buffer_finish(&s->thought_emitted);
	buffer_finish(&s->shown);
}
