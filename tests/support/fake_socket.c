#include "fake_socket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static uint64_t number(const json_t *data, const char *name)
{
	const json_t *value = json_object_get(data, name);
	assert_true(json_is_integer(value));
	return (uint64_t)json_integer_value(value);
}

static bool flag(const json_t *data, const char *name)
{
	const json_t *value = json_object_get(data, name);
	assert_true(json_is_boolean(value));
	return json_is_true(value);
}

/* --- the client --- */

/** The events of a page must be one after the other; gives the first and the last. */
static void read_run(const json_t *events, uint64_t *ret_first, uint64_t *ret_last)
{
	size_t i;
	json_t *event;
	json_array_foreach(events, i, event) {
		uint64_t seq = number(event, "seq");
		assert_true(i == 0 || seq == *ret_last + 1);
		*ret_first = i ? *ret_first : seq;
		*ret_last = seq;
	}
}

static void take_events(struct fake_socket *s, uint64_t first, uint64_t last)
{
	assert_int_equal(first, s->last + 1);
	s->last = last;
	if (s->open_seq <= last) {
		s->open_seq = 0;
	}
}

static void take_open(struct fake_socket *s, const json_t *open)
{
	if (!open) {
		return;
	}
	assert_true(s->deltas != DELTAS_NONE);
	assert_true(s->live);
	const json_t *text = json_object_get(open, s->deltas == DELTAS_TEXT ? "text" : "html");
	assert_true(json_is_string(text));
	s->open_seq = number(open, "seq");
	s->open_len = json_string_length(text);
	assert_true(s->open_seq > s->last);
}

static void take_loaded(struct fake_socket *s, const json_t *data)
{
	const json_t *events = json_object_get(data, "events");
	uint64_t first = 0;
	uint64_t last = 0;
	read_run(events, &first, &last);
	assert_int_equal(number(data, "first_seq"), first);
	assert_int_equal(number(data, "last_seq"), last);
	assert_true(number(data, "max_seq") >= last);
	s->prompting = flag(data, "is_prompting");
	buffer_printf(&s->log, " %llu-%llu%s", (unsigned long long)first, (unsigned long long)last,
		flag(data, "has_more") ? " more" : "");
	const json_t *reset = json_object_get(data, "reset");
	if (reset) {
		buffer_printf(
			&s->log, " reset %s", json_string_value(json_object_get(reset, "reason")));
	}
	if (flag(data, "prepend")) {
		return;
	}
	if (reset || !s->loading_forward) {
		/* The newest page: everything before is dropped. It may be behind already. */
		s->last = last;
		s->live = true;
	} else {
		if (last) {
			take_events(s, first, last);
		}
		s->live = !flag(data, "has_more");
		assert_true(!s->live || s->last == number(data, "max_seq"));
	}
	s->was_live = s->was_live || s->live;
	s->has_page = true;
	take_open(s, json_object_get(data, "open"));
}

static void take_live(struct fake_socket *s, const json_t *data)
{
	uint64_t first = 0;
	uint64_t last = 0;
	read_run(json_object_get(data, "events"), &first, &last);
	assert_true(s->live);
	assert_true(first > 0);
	take_events(s, first, last);
	assert_true(number(data, "max_seq") >= last);
	s->prompting = flag(data, "is_prompting");
	buffer_printf(&s->log, " %llu-%llu", (unsigned long long)first, (unsigned long long)last);
}

/** A delta fits what the client has of that event, or begins it. */
static void take_delta(struct fake_socket *s, const json_t *data)
{
	assert_true(s->live);
	assert_int_equal(s->deltas, DELTAS_TEXT);
	uint64_t seq = number(data, "seq");
	size_t offset = number(data, "offset");
	assert_true(seq > s->last);
	if (s->open_seq != seq) {
		s->open_seq = seq;
		s->open_len = 0;
	}
	assert_int_equal(offset, s->open_len);
	s->open_len += json_string_length(json_object_get(data, "text"));
	buffer_printf(&s->log, " %llu %s", (unsigned long long)seq,
		json_string_value(json_object_get(data, "text")));
}

static void take_frame(struct fake_socket *s, const char *type, const json_t *data)
{
	buffer_printf(&s->log, "%s%s", s->log.len ? "; " : "", type);
	if (strcmp(type, "events_loaded") == 0) {
		take_loaded(s, data);
	} else if (strcmp(type, "events") == 0) {
		take_live(s, data);
	} else if (strcmp(type, "delta") == 0) {
		take_delta(s, data);
	} else if (strcmp(type, "preview") == 0) {
		assert_true(s->live && s->deltas == DELTAS_HTML);
		assert_true(number(data, "seq") > s->last);
	} else if (strcmp(type, "activity") == 0) {
		assert_true(s->was_live);
		buffer_printf(&s->log, " %llu %s", (unsigned long long)number(data, "seq"),
			json_string_value(json_object_get(data, "type")));
	} else if (strcmp(type, "state") == 0) {
		assert_true(s->was_live);
		s->prompting = flag(data, "is_prompting");
		buffer_printf(&s->log, " %s", json_string_value(json_object_get(data, "status")));
	} else if (strcmp(type, "connected") == 0) {
		assert_int_equal(json_array_size(s->frames), 1);
	}
}

/* --- the socket --- */

static bool is_writable(void *socket)
{
	struct fake_socket *s = socket;
	return s->budget > 0 && !s->closed;
}

static void write_frame(void *socket, struct frame *frame)
{
	struct fake_socket *s = socket;
	bool last_word = memcmp(frame_text(frame), "{\"type\":\"session_gone\"", 22) == 0;
	assert_true(s->budget > 0 || last_word);
	assert_int_equal(s->closed, 0);
	s->budget -= s->budget > 0 && s->budget != SIZE_MAX;
	json_t *json =
		json_loadb(frame_text(frame), frame_len(frame), JSON_REJECT_DUPLICATES, NULL);
	if (!json) {
		fail_msg("no JSON: %.*s", (int)frame_len(frame), frame_text(frame));
	}
	json_array_append_new(s->frames, json);
	take_frame(
		s, json_string_value(json_object_get(json, "type")), json_object_get(json, "data"));
}

static void want_writable(void *socket)
{
	struct fake_socket *s = socket;
	s->wanted = true;
}

static void close_socket(void *socket, unsigned code, const char *reason)
{
	struct fake_socket *s = socket;
	assert_int_equal(s->closed, 0);
	s->closed = code;
}

void fake_socket_open(struct fake_socket *s, struct channel *channel, enum deltas deltas)
{
	static const struct observer_socket_ops ops = {
		.is_writable = is_writable,
		.write = write_frame,
		.want_writable = want_writable,
		.close = close_socket,
	};
	*s = (struct fake_socket){
		.channel = channel, .deltas = deltas, .budget = SIZE_MAX, .frames = json_array()};
	s->observer = observer_create(channel,
		&(struct observer_config){.encoder = &websocket_encoder,
			.format = FORMAT_MARKDOWN,
			.deltas = deltas,
			.client_id = "client",
			.sub = ""},
		&ops, s);
}

void fake_socket_finish(struct fake_socket *s)
{
	observer_destroy(s->observer);
	json_decref(s->frames);
	buffer_finish(&s->log);
}

void fake_socket_load(struct fake_socket *s, const struct load_request *load)
{
	bool forward = load->from == LOAD_AFTER;
	if (load->from != LOAD_BEFORE) {
		s->loading_forward = forward;
		s->live = false;
		s->open_seq = 0;
	}
	if (forward) {
		s->last = load->seq;
	}
	observer_load(s->observer, load);
}

void fake_socket_drain(struct fake_socket *s, size_t frames)
{
	s->budget = frames;
	if (s->wanted && frames && !s->closed) {
		s->wanted = false;
		observer_pump(s->observer);
	}
}

void fake_socket_expect(struct fake_socket *s, const char *what)
{
	assert_string_equal(buffer_cstr(&s->log), what);
	buffer_clear(&s->log);
}

json_t *fake_socket_newest(const struct fake_socket *s, const char *type)
{
	for (size_t i = json_array_size(s->frames); i-- > 0;) {
		const json_t *frame = json_array_get(s->frames, i);
		if (strcmp(json_string_value(json_object_get(frame, "type")), type) == 0) {
			return json_object_get(frame, "data");
		}
	}
	return NULL;
}

size_t fake_socket_count(const struct fake_socket *s, const char *type)
{
	size_t n = 0;
	size_t i;
	json_t *frame;
	json_array_foreach(s->frames, i, frame) {
		n += strcmp(json_string_value(json_object_get(frame, "type")), type) == 0;
	}
	return n;
}
