#include "mirror.h"

#include "holdfast/bytes.h"
#include "holdfast/json_text.h"
#include "holdfast/utf8.h"

#include <errno.h>
#include <string.h>

/* Members that a message has besides its type. */
enum {
	HAS_VIEWER = 1,
	HAS_OPEN = 2, /* seq and event */
	HAS_ABOUT = 4,
	HAS_SEQ = 8,
};

static const struct {
	const char *name;
	unsigned has;
	size_t parts;
} types[MIRROR_TYPES] = {
	[MIRROR_WELCOME] = {"welcome", HAS_ABOUT | HAS_OPEN, 4},
	[MIRROR_EVENTS] = {"events", HAS_ABOUT, 1},
	[MIRROR_ABOUT] = {"about", HAS_ABOUT, 0},
	[MIRROR_STATE] = {"state", HAS_ABOUT, 2},
	[MIRROR_DELTA] = {"delta", HAS_OPEN, 1},
	[MIRROR_PREVIEW] = {"preview", HAS_OPEN, 1},
	[MIRROR_ACTIVITY] = {"activity", HAS_SEQ, 2},
	[MIRROR_ANSWER] = {"answer", HAS_VIEWER, 1},
	[MIRROR_DISMISS] = {"dismiss", HAS_VIEWER, 0},
	[MIRROR_REACHED] = {"reached", HAS_VIEWER | HAS_SEQ, 0},
	[MIRROR_VIEWER] = {"viewer", HAS_VIEWER, 0},
	[MIRROR_REQUEST] = {"request", HAS_VIEWER, 1},
	[MIRROR_LEAVE] = {"leave", HAS_VIEWER, 0},
	[MIRROR_PREVIEWS] = {"previews", 0, 0},
	[MIRROR_REACH] = {"reach", HAS_VIEWER, 0},
};

/* The values of a session's status. A parsed status points to one of these, so it is static. */
static const char *const statuses[] = {"idle", "running", "waiting"};

/* --- writing --- */

static void put_number(struct buffer *out, const char *name, uint64_t value)
{
	buffer_append(out, ",\"", 2);
	buffer_append_str(out, name);
	buffer_append(out, "\":", 2);
	buffer_append_u64(out, value);
}

static void put_bool(struct buffer *out, const char *name, bool value)
{
	buffer_printf(out, ",\"%s\":%s", name, value ? "true" : "false");
}

static void begin(struct buffer *out, enum mirror_type type)
{
	buffer_append_str(out, "{\"type\":\"");
	buffer_append_str(out, types[type].name);
	buffer_append_char(out, '"');
}

/** Ends the head and appends the parts. */
static void end(struct buffer *out, const struct mirror_part *parts, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		buffer_append_str(out, i ? "," : ",\"parts\":[");
		buffer_append_u64(out, parts[i].len);
	}
	buffer_append_str(out, count ? "]}\n" : "}");
	for (size_t i = 0; i < count; i++) {
		buffer_append(out, parts[i].text, parts[i].len);
	}
}

static struct frame *end_frame(
	struct buffer *text, const struct mirror_part *parts, size_t part_count)
{
	end(text, parts, part_count);
	struct frame *frame = frame_of_text(text->data, text->len);
	buffer_finish(text);
	return frame;
}

static void put_about(struct buffer *out, const struct connected_frame *about)
{
	const struct session_status *status = &about->status;
	buffer_append_str(out, ",\"epoch\":\"");
	buffer_append_hex(out, about->epoch);
	buffer_append_char(out, '"');
	put_number(out, "first_seq", about->first_seq);
	put_number(out, "max_seq", about->max_seq);
	buffer_append_member(out, "title", about->labels.title);
	put_bool(out, "archived", about->labels.archived);
	put_bool(out, "pinned", about->labels.pinned);
	put_bool(out, "is_prompting", status->is_prompting);
	put_bool(out, "is_running", status->is_running);
	put_number(out, "queue_length", status->queue_length);
	buffer_append_member(out, "status", status->status);
	if (about->last_prompt_id) {
		buffer_append_member(out, "last_prompt_id", about->last_prompt_id);
		put_number(out, "last_prompt_seq", about->last_prompt_seq);
	}
	for (size_t i = 0; i < AGENT_STATE_COUNT; i++) {
		buffer_append_str(out, i ? "," : ",\"agent_state\":[");
		buffer_append_u64(out, about->agent_state.seqs[i]);
	}
	buffer_append_char(out, ']');
}

static void put_open(struct buffer *out, uint64_t seq, enum event_type type)
{
	put_number(out, "seq", seq);
	buffer_append_member(out, "event", event_type_name(type));
}

static struct mirror_part part_of_text(const char *text)
{
	return (struct mirror_part){text ? text : "", text ? strlen(text) : 0};
}

static struct mirror_part part_of_frame(const struct frame *frame)
{
	return (struct mirror_part){frame ? frame_text(frame) : "", frame ? frame_len(frame) : 0};
}

/** The waiting prompts, as the `state` frame has them. */
static struct mirror_part part_of_queue(const struct session_status *status, struct buffer *queue)
{
	if (status->queue_text) {
		return part_of_text(status->queue_text);
	}
	prompt_queue_append_brief(queue, status->queue);
	return (struct mirror_part){queue->data, queue->len};
}

static struct frame *make_welcome(void *reader, const struct connected_frame *in)
{
	struct buffer out = {0};
	struct buffer queue = {0};
	const struct mirror_part parts[] = {part_of_text(in->status.usage),
		part_of_queue(&in->status, &queue), {in->text.text, in->text.len},
		{in->html.text, in->html.len}};
	begin(&out, MIRROR_WELCOME);
	put_about(&out, in);
	put_open(&out, in->text.seq, in->text.type);
	put_number(&out, "log", in->log);
	struct frame *frame = end_frame(&out, parts, 4);
	buffer_finish(&queue);
	return frame;
}

static struct frame *make_events(void *reader, const struct live_events *in)
{
	struct buffer out = {0};
	struct buffer lines = {0};
	for (size_t i = 0; i < in->count; i++) {
		event_append_line(in->events[i], &lines);
	}
	begin(&out, MIRROR_EVENTS);
	put_about(&out, in->now);
	put_number(&out, "events", in->count);
	struct frame *frame = end_frame(&out, &(struct mirror_part){lines.data, lines.len}, 1);
	buffer_finish(&lines);
	return frame;
}

static struct frame *make_about(void *reader, const struct connected_frame *now)
{
	struct buffer out = {0};
	begin(&out, MIRROR_ABOUT);
	put_about(&out, now);
	return end_frame(&out, NULL, 0);
}

static struct frame *make_state(void *reader, const struct connected_frame *now, unsigned hide)
{
	struct buffer out = {0};
	struct buffer queue = {0};
	const struct mirror_part parts[] = {
		part_of_text(now->status.usage), part_of_queue(&now->status, &queue)};
	begin(&out, MIRROR_STATE);
	put_about(&out, now);
	struct frame *frame = end_frame(&out, parts, 2);
	buffer_finish(&queue);
	return frame;
}

static struct frame *make_delta(void *reader, const struct open_part *in)
{
	struct buffer out = {0};
	begin(&out, MIRROR_DELTA);
	put_open(&out, in->seq, in->type);
	put_number(&out, "offset", in->offset);
	return end_frame(&out, &(struct mirror_part){in->text, in->len}, 1);
}

static struct frame *make_preview(void *reader, const struct open_part *in)
{
	struct buffer out = {0};
	begin(&out, MIRROR_PREVIEW);
	put_open(&out, in->seq, in->type);
	return end_frame(&out, &(struct mirror_part){in->text, in->len}, 1);
}

/** The viewers get one of two frames: what they may see is not known here. */
static struct frame *make_activity(void *reader, const struct activity *in, unsigned hide)
{
	struct buffer out = {0};
	struct frame *shown = frame_make("activity", in->shown, in->shown_len);
	struct frame *redacted =
		in->redacted ? frame_make("activity", in->redacted, in->redacted_len) : NULL;
	const struct mirror_part parts[] = {part_of_frame(shown), part_of_frame(redacted)};
	begin(&out, MIRROR_ACTIVITY);
	put_number(&out, "seq", in->seq);
	put_number(&out, "hides", in->hides);
	struct frame *frame = end_frame(&out, parts, 2);
	frame_unref(shown);
	frame_unref(redacted);
	return frame;
}

const struct encoder mirror_encoder = {
	.is_mirror = true,
	.lost_code = 1001,
	.lost_reason = "the node was too far behind",
	.connected = make_welcome,
	.events = make_events,
	.delta = make_delta,
	.preview = make_preview,
	.activity = make_activity,
	.state = make_state,
	.about = make_about,
};

struct frame *mirror_answer(uint64_t viewer, const struct frame *frame)
{
	struct buffer out = {0};
	const struct mirror_part part = part_of_frame(frame);
	begin(&out, MIRROR_ANSWER);
	put_number(&out, "viewer", viewer);
	return end_frame(&out, &part, 1);
}

struct frame *mirror_dismiss(uint64_t viewer, unsigned code, const char *reason)
{
	struct buffer out = {0};
	begin(&out, MIRROR_DISMISS);
	put_number(&out, "viewer", viewer);
	put_number(&out, "code", code);
	buffer_append_member(&out, "reason", reason);
	return end_frame(&out, NULL, 0);
}

struct frame *mirror_reached(uint64_t viewer, uint64_t seq)
{
	struct buffer out = {0};
	begin(&out, MIRROR_REACHED);
	put_number(&out, "viewer", viewer);
	put_number(&out, "seq", seq);
	return end_frame(&out, NULL, 0);
}

void mirror_append_viewer(
	struct buffer *out, uint64_t viewer, const char *client_id, const char *identity)
{
	begin(out, MIRROR_VIEWER);
	put_number(out, "viewer", viewer);
	buffer_append_member(out, "client_id", client_id);
	buffer_append_member(out, "identity", identity);
	end(out, NULL, 0);
}

void mirror_append_request(struct buffer *out, uint64_t viewer, const char *text, size_t len)
{
	begin(out, MIRROR_REQUEST);
	put_number(out, "viewer", viewer);
	end(out, &(struct mirror_part){text, len}, 1);
}

void mirror_append_leave(struct buffer *out, uint64_t viewer)
{
	begin(out, MIRROR_LEAVE);
	put_number(out, "viewer", viewer);
	end(out, NULL, 0);
}

void mirror_append_previews(struct buffer *out, bool wanted)
{
	begin(out, MIRROR_PREVIEWS);
	put_bool(out, "wanted", wanted);
	end(out, NULL, 0);
}

void mirror_append_reach(struct buffer *out, uint64_t viewer)
{
	begin(out, MIRROR_REACH);
	put_number(out, "viewer", viewer);
	end(out, NULL, 0);
}

/* --- reading --- */

/** Reads a whole number from 0 on. Returns false if there is none with this name. */
static bool get_number(const json_t *head, const char *name, uint64_t *ret)
{
	const json_t *value = json_object_get(head, name);
	*ret = json_is_integer(value) ? (uint64_t)json_integer_value(value) : 0;
	return json_is_integer(value) && json_integer_value(value) >= 0;
}

static bool get_bool(const json_t *head, const char *name, bool *ret)
{
	const json_t *value = json_object_get(head, name);
	*ret = json_is_true(value);
	return json_is_boolean(value);
}

/** Reads a string without NUL. Returns false if there is none with this name. */
static bool get_text(const json_t *head, const char *name, const char **ret)
{
	const json_t *value = json_object_get(head, name);
	*ret = json_string_value(value);
	return *ret && strlen(*ret) == json_string_length(value);
}

static bool get_epoch(const json_t *head, uint64_t *ret)
{
	const char *text;
	*ret = 0;
	return get_text(head, "epoch", &text) && bytes_read_hex(text, strlen(text), ret);
}

static bool get_status(const json_t *head, struct session_status *ret)
{
	const char *word;
	uint64_t length;
	bool good = get_bool(head, "is_prompting", &ret->is_prompting) &&
		    get_bool(head, "is_running", &ret->is_running) &&
		    get_number(head, "queue_length", &length) && get_text(head, "status", &word);
	for (size_t i = 0; good && i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		if (strcmp(statuses[i], word) == 0) {
			ret->status = statuses[i];
		}
	}
	ret->queue_length = good ? (size_t)length : 0;
	return good && ret->status;
}

static bool get_agent_state(const json_t *head, struct agent_state *ret)
{
	const json_t *list = json_object_get(head, "agent_state");
	if (json_array_size(list) != AGENT_STATE_COUNT) {
		return false;
	}
	for (size_t i = 0; i < AGENT_STATE_COUNT; i++) {
		const json_t *seq = json_array_get(list, i);
		if (!json_is_integer(seq) || json_integer_value(seq) < 0) {
			return false;
		}
		ret->seqs[i] = (uint64_t)json_integer_value(seq);
	}
	return true;
}

static bool get_about(const json_t *head, struct connected_frame *ret)
{
	bool has_prompt = json_object_get(head, "last_prompt_id") != NULL;
	return get_epoch(head, &ret->epoch) && get_number(head, "first_seq", &ret->first_seq) &&
	       get_number(head, "max_seq", &ret->max_seq) && ret->first_seq > 0 &&
	       ret->first_seq <= ret->max_seq + 1 && get_text(head, "title", &ret->labels.title) &&
	       get_bool(head, "archived", &ret->labels.archived) &&
	       get_bool(head, "pinned", &ret->labels.pinned) && get_status(head, &ret->status) &&
	       get_agent_state(head, &ret->agent_state) &&
	       (!has_prompt || (get_text(head, "last_prompt_id", &ret->last_prompt_id) &&
				       get_number(head, "last_prompt_seq", &ret->last_prompt_seq)));
}

/** Finds the parts, which must take up exactly the rest of the message. */
static bool get_parts(struct mirror_message *m, const char *rest, size_t len)
{
	const json_t *sizes = json_object_get(m->head, "parts");
	m->part_count = json_array_size(sizes);
	if (m->part_count != types[m->type].parts) {
		return false;
	}
	for (size_t i = 0; i < m->part_count; i++) {
		const json_t *size = json_array_get(sizes, i);
		if (!json_is_integer(size) || json_integer_value(size) < 0 ||
			(uint64_t)json_integer_value(size) > len) {
			return false;
		}
		m->parts[i] = (struct mirror_part){rest, (size_t)json_integer_value(size)};
		rest += m->parts[i].len;
		len -= m->parts[i].len;
	}
	return len == 0;
}

/** Reads the members of a single type. */
static bool get_own(struct mirror_message *m)
{
	uint64_t number = 0;
	bool good = true;
	switch (m->type) {
	case MIRROR_WELCOME:
		return get_number(m->head, "log", &m->log);
	case MIRROR_EVENTS:
		return get_number(m->head, "events", &m->events);
	case MIRROR_DELTA:
		good = get_number(m->head, "offset", &number);
		m->offset = (size_t)number;
		return good;
	case MIRROR_ACTIVITY:
		good = get_number(m->head, "hides", &number) && number <= HIDE_ALL;
		m->hides = (unsigned)number;
		return good && m->parts[0].len;
	case MIRROR_DISMISS:
		good = get_number(m->head, "code", &number) && number >= 1000 && number < 5000;
		m->code = (unsigned)number;
		return good && get_text(m->head, "reason", &m->reason);
	case MIRROR_VIEWER:
		return get_text(m->head, "client_id", &m->client_id) &&
		       get_text(m->head, "identity", &m->identity);
	case MIRROR_PREVIEWS:
		return get_bool(m->head, "wanted", &m->wanted);
	default:
		return true;
	}
}

static bool get_open(struct mirror_message *m)
{
	const char *name;
	if (!get_number(m->head, "seq", &m->seq) || !get_text(m->head, "event", &name)) {
		return false;
	}
	m->event = event_type_of(name, strlen(name));
	return m->event == EVENT_AGENT_MESSAGE || m->event == EVENT_AGENT_THOUGHT || !m->seq;
}

static bool get_type(struct mirror_message *m)
{
	const char *name;
	if (!get_text(m->head, "type", &name)) {
		return false;
	}
	while (m->type < MIRROR_TYPES && strcmp(types[m->type].name, name) != 0) {
		m->type++;
	}
	return m->type < MIRROR_TYPES;
}

static bool read_all(struct mirror_message *m, const char *rest, size_t len)
{
	if (!get_type(m) || !get_parts(m, rest, len)) {
		return false;
	}
	unsigned has = types[m->type].has;
	return (!(has & HAS_VIEWER) || get_number(m->head, "viewer", &m->viewer)) &&
	       (!(has & HAS_OPEN) || get_open(m)) &&
	       (!(has & HAS_SEQ) || get_number(m->head, "seq", &m->seq)) &&
	       (!(has & HAS_ABOUT) || get_about(m->head, &m->about)) && get_own(m);
}

int mirror_read(const char *text, size_t len, struct mirror_message *ret)
{
	struct mirror_message m = {.type = MIRROR_WELCOME};
	const char *newline = memchr(text, '\n', len);
	size_t head = newline ? (size_t)(newline - text) : len;
	size_t used = head + (newline != NULL);
	if (head > MIRROR_HEAD_MAX || !utf8_is_valid(text + used, len - used)) {
		return -EBADMSG;
	}
	m.head = json_read(text, head, JSON_REJECT_DUPLICATES, NULL, NULL);
	if (!json_is_object(m.head) || !read_all(&m, text + used, len - used)) {
		mirror_finish(&m);
		return -EBADMSG;
	}
	*ret = m;
	return 0;
}

void mirror_finish(struct mirror_message *message)
{
	json_decref(message->head);
	message->head = NULL;
}

int mirror_next_event(struct mirror_message *m, struct event **ret_event)
{
	size_t left = m->parts[0].len - m->read;
	if (!left || !m->events) {
		return left || m->events ? -EBADMSG : 0;
	}
	const char *line = m->parts[0].text + m->read;
	const char *newline = memchr(line, '\n', left);
	if (!newline || event_from_line(line, (size_t)(newline - line), ret_event) < 0) {
		return -EBADMSG;
	}
	m->read += (size_t)(newline - line) + 1;
	m->events--;
	return 1;
}
