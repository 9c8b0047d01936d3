#include "holdfast/frames.h"

#include "holdfast/deflate.h"
#include "holdfast/requests.h"

#include <stdlib.h>
#include <string.h>

struct frame *frame_ref(struct frame *frame)
{
	frame->refs++;
	return frame;
}

void frame_unref(struct frame *frame)
{
	if (frame && --frame->refs == 0) {
		buffer_finish(&frame->buf);
		buffer_finish(&frame->deflated);
		frame_unref(frame->sse);
		free(frame);
	}
}

const struct buffer *frame_deflated(struct frame *frame, struct deflater *deflater)
{
	static const char headroom[FRAME_HEADROOM];
	size_t len = frame_len(frame);
	if (!frame->was_deflated && len >= DEFLATE_MIN) {
		buffer_append(&frame->deflated, headroom, sizeof(headroom));
		deflate_message(deflater, frame_text(frame), len, &frame->deflated);
		if (frame->deflated.len >= frame->buf.len) {
			buffer_finish(&frame->deflated);
		}
	}
	frame->was_deflated = true;
	return frame->deflated.len ? &frame->deflated : NULL;
}

/* --- building --- */

static struct frame *begin_text(size_t size_hint)
{
	struct frame *frame = xcalloc(1, sizeof(*frame));
	frame->refs = 1;
	buffer_reserve(&frame->buf, FRAME_HEADROOM + size_hint);
	memset(frame->buf.data, 0, FRAME_HEADROOM);
	frame->buf.len = FRAME_HEADROOM;
	return frame;
}

struct frame *frame_of_text(const char *text, size_t len)
{
	struct frame *frame = begin_text(len);
	buffer_append(&frame->buf, text, len);
	return frame;
}

/* What stands before the type of a frame for clients, and between type and data. */
static const char before[] = "{\"type\":\"";
static const char between[] = "\",\"data\":";

static struct frame *begin(const char *type, size_t size_hint)
{
	struct frame *frame = begin_text(size_hint + 64);
	buffer_append_str(&frame->buf, before);
	buffer_append_str(&frame->buf, type);
	buffer_append_str(&frame->buf, between);
	frame->type_len = strlen(type);
	return frame;
}

static struct frame *end(struct frame *frame)
{
	buffer_append_char(&frame->buf, '}');
	return frame;
}

bool frame_split(const char *text, size_t len, struct frame_parts *ret)
{
	const size_t head = sizeof(before) - 1;
	const size_t gap = sizeof(between) - 1;
	if (len < head || memcmp(text, before, head) != 0) {
		return false;
	}
	const char *type = text + head;
	const char *end = memchr(type, '"', len - head);
	size_t left = end ? (size_t)(text + len - end) : 0;
	if (left < gap + 2 || memcmp(end, between, gap) != 0 || text[len - 1] != '}') {
		return false;
	}
	*ret = (struct frame_parts){type, (size_t)(end - type), end + gap, left - gap - 1};
	return true;
}

struct frame_parts frame_parts(const struct frame *frame)
{
	const char *text = frame_text(frame);
	struct frame_parts parts = {"", 0, "", 0};
	if (!frame->type_len) {
		frame_split(text, frame_len(frame), &parts);
		return parts;
	}
	size_t data = sizeof(before) - 1 + frame->type_len + sizeof(between) - 1;
	return (struct frame_parts){text + sizeof(before) - 1, frame->type_len, text + data,
		frame_len(frame) - data - 1};
}

static void put_name(struct buffer *out, const char *name)
{
	buffer_append(out, ",\"", 2);
	buffer_append_str(out, name);
	buffer_append(out, "\":", 2);
}

static void put_string(struct buffer *out, const char *name, const char *value)
{
	if (value) {
		buffer_append_member(out, name, value);
	} else {
		put_name(out, name);
		buffer_append_str(out, "null");
	}
}

static void put_u64(struct buffer *out, const char *name, uint64_t value)
{
	put_name(out, name);
	buffer_append_u64(out, value);
}

static void put_bool(struct buffer *out, const char *name, bool value)
{
	put_name(out, name);
	buffer_append_str(out, value ? "true" : "false");
}

static void put_epoch(struct buffer *out, uint64_t epoch)
{
	put_name(out, "epoch");
	buffer_append_char(out, '"');
	buffer_append_hex(out, epoch);
	buffer_append_char(out, '"');
}

static void put_agent_state(struct buffer *out, const struct agent_state *state, uint64_t first_seq)
{
	buffer_append_str(out, ",\"agent_state\":");
	agent_state_append(state, first_seq, out);
}

static void put_events(struct buffer *out, struct event **events, size_t count,
	enum event_format format, unsigned hide)
{
	buffer_append_str(out, "\"events\":[");
	for (size_t i = 0; i < count; i++) {
		size_t len;
		const char *json = event_json_for(events[i], format, hide, &len);
		if (i) {
			buffer_append_char(out, ',');
		}
		buffer_append(out, json, len);
	}
	buffer_append_char(out, ']');
}

void frames_append_hide(struct buffer *out, unsigned hide)
{
	if (hide) {
		buffer_append_str(out, ",\"hide\":");
		hide_append(out, hide);
	}
}

struct frame *frame_make(const char *type, const char *data, size_t len)
{
	struct frame *frame = begin(type, len);
	buffer_append(&frame->buf, data, len);
	return end(frame);
}

static void put_labels(struct buffer *out, const struct session_labels *labels)
{
	put_string(out, "title", labels->title);
	put_bool(out, "archived", labels->archived);
	put_bool(out, "pinned", labels->pinned);
}

/* --- frames --- */

struct frame *frame_connected(const struct connected_frame *in)
{
	struct frame *frame = begin("connected", 256);
	struct buffer *out = &frame->buf;
	buffer_append_str(out, "{\"protocol\":1");
	put_string(out, "session_id", in->session_id);
	put_labels(out, &in->labels);
	put_string(out, "client_id", in->client_id);
	put_string(out, "role", in->role);
	if (in->expires_ms) {
		put_u64(out, "expires_at", (uint64_t)in->expires_ms);
	} else {
		buffer_append_str(out, ",\"expires_at\":null");
	}
	frames_append_hide(out, in->hide);
	put_epoch(out, in->epoch);
	put_u64(out, "max_seq", in->max_seq);
	put_bool(out, "is_running", in->status.is_running);
	put_bool(out, "is_prompting", in->status.is_prompting);
	put_string(out, "last_user_prompt_id", in->last_prompt_id);
	if (in->last_prompt_id) {
		put_u64(out, "last_user_prompt_seq", in->last_prompt_seq);
	} else {
		buffer_append_str(out, ",\"last_user_prompt_seq\":null");
	}
	put_agent_state(out, &in->agent_state, in->first_seq);
	buffer_append_char(out, '}');
	return end(frame);
}

static void put_open(struct buffer *out, const struct open_part *open)
{
	buffer_printf(out,
		",\"open\":{\"seq\":%llu,\"type\":\"%s\",\"%s\":", (unsigned long long)open->seq,
		event_type_name(open->type), open->is_html ? "html" : "text");
	buffer_append_json(out, open->text, open->len);
	buffer_append_char(out, '}');
}

void frames_append_loaded(struct buffer *out, const struct loaded_frame *in)
{
	buffer_append_char(out, '{');
	put_events(out, in->events, in->count, in->format, in->hide);
	put_bool(out, "has_more", in->has_more);
	put_u64(out, "first_seq", in->count ? in->events[0]->seq : 0);
	put_u64(out, "last_seq", in->count ? in->events[in->count - 1]->seq : 0);
	put_u64(out, "max_seq", in->max_seq);
	put_u64(out, "total_count", in->max_seq + 1 - in->first_kept_seq);
	put_epoch(out, in->epoch);
	put_bool(out, "prepend", in->prepend);
	put_bool(out, "is_prompting", in->is_prompting);
	if (in->reset) {
		buffer_printf(out, ",\"reset\":{\"reason\":\"%s\"}", in->reset);
	}
	if (in->open.seq) {
		put_open(out, &in->open);
	}
	buffer_append_char(out, '}');
}

struct frame *frame_events_loaded(const struct loaded_frame *in)
{
	size_t room = 512;
	for (size_t i = 0; i < in->count; i++) {
		size_t len = in->events[i]->json_len[in->format];
		room += (len ? len : in->events[i]->json_len[FORMAT_MARKDOWN]) + 1;
	}
	struct frame *frame = begin("events_loaded", room);
	frames_append_loaded(&frame->buf, in);
	return end(frame);
}

struct frame *frame_events(struct event **events, size_t count, enum event_format format,
	unsigned hide, uint64_t max_seq, bool is_prompting)
{
	struct frame *frame = begin("events", 256 * count);
	buffer_append_char(&frame->buf, '{');
	put_events(&frame->buf, events, count, format, hide);
	put_u64(&frame->buf, "max_seq", max_seq);
	put_bool(&frame->buf, "is_prompting", is_prompting);
	buffer_append_char(&frame->buf, '}');
	return end(frame);
}

struct frame *frame_delta(
	uint64_t seq, enum event_type type, size_t offset, const char *text, size_t len)
{
	struct frame *frame = begin("delta", len + 96);
	buffer_printf(&frame->buf,
		"{\"seq\":%llu,\"type\":\"%s\",\"offset\":%zu,\"text\":", (unsigned long long)seq,
		event_type_name(type), offset);
	buffer_append_json(&frame->buf, text, len);
	buffer_append_char(&frame->buf, '}');
	return end(frame);
}

struct frame *frame_preview(uint64_t seq, enum event_type type, const char *html, size_t len)
{
	struct frame *frame = begin("preview", len + 96);
	buffer_printf(&frame->buf,
		"{\"seq\":%llu,\"type\":\"%s\",\"html\":", (unsigned long long)seq,
		event_type_name(type));
	buffer_append_json(&frame->buf, html, len);
	buffer_append_char(&frame->buf, '}');
	return end(frame);
}

void frames_append_activity(struct buffer *out, uint64_t seq, const char *type, size_t type_len,
	const char *data, size_t len)
{
	buffer_printf(out, "{\"seq\":%llu,\"type\":", (unsigned long long)seq);
	buffer_append_json(out, type, type_len);
	buffer_append_str(out, data ? ",\"data\":" : ",\"redacted\":true,\"data\":{");
	buffer_append(out, data, data ? len : 0);
	buffer_append_str(out, data ? "}" : "}}");
}

static const char *shown_status(const char *status, bool is_prompting, unsigned hide)
{
	bool is_hidden = (hide & HIDE_TOOLS) && strcmp(status, "waiting") == 0;
	return !is_hidden ? status : is_prompting ? "running" : "idle";
}

/** Appends is_prompting, is_running, queue_length and status, each with a comma before it. */
static void put_status(struct buffer *out, const struct session_status *status, unsigned hide)
{
	put_bool(out, "is_prompting", status->is_prompting);
	put_bool(out, "is_running", status->is_running);
	put_u64(out, "queue_length", status->queue_length);
	put_string(out, "status", shown_status(status->status, status->is_prompting, hide));
}

struct frame *frame_state(const struct session_status *status, unsigned hide)
{
	struct frame *frame = begin("state", 256);
	buffer_printf(&frame->buf, "{\"usage\":%s", status->usage ? status->usage : "null");
	put_status(&frame->buf, status, hide);
	buffer_append_str(&frame->buf, ",\"queue\":");
	if (status->queue_text) {
		buffer_append_str(&frame->buf, status->queue_text);
	} else {
		prompt_queue_append_brief(&frame->buf, status->queue);
	}
	buffer_append_char(&frame->buf, '}');
	return end(frame);
}

struct frame *frame_keepalive_ack(const char *client_time, int64_t server_time, uint64_t max_seq,
	uint64_t epoch, const struct session_status *status, unsigned hide)
{
	struct frame *frame = begin("keepalive_ack", 256);
	buffer_printf(&frame->buf, "{\"client_time\":%s,\"server_time\":%lld",
		client_time ? client_time : "null", (long long)server_time);
	if (epoch) {
		put_u64(&frame->buf, "max_seq", max_seq);
		put_epoch(&frame->buf, epoch);
		put_status(&frame->buf, status, hide);
	}
	buffer_append_char(&frame->buf, '}');
	return end(frame);
}

/** Begins a frame whose data has the prompt's id. */
static struct frame *begin_prompt(const char *type, const char *prompt_id)
{
	struct frame *frame = begin(type, 256);
	buffer_append_char(&frame->buf, '{');
	put_string(&frame->buf, "prompt_id", prompt_id);
	return frame;
}

static struct frame *end_prompt(struct frame *frame)
{
	buffer_append_char(&frame->buf, '}');
	return end(frame);
}

struct frame *frame_prompt_received(const char *prompt_id, uint64_t seq, bool duplicate)
{
	struct frame *frame = begin_prompt("prompt_received", prompt_id);
	if (seq) {
		put_u64(&frame->buf, "seq", seq);
	} else {
		buffer_append_str(&frame->buf, ",\"seq\":null");
	}
	put_bool(&frame->buf, "duplicate", duplicate);
	return end_prompt(frame);
}

struct frame *frame_prompt_was_removed(const char *prompt_id)
{
	struct frame *frame = begin_prompt("prompt_received", prompt_id);
	buffer_append_str(&frame->buf, ",\"seq\":null");
	put_bool(&frame->buf, "duplicate", true);
	put_bool(&frame->buf, "removed", true);
	return end_prompt(frame);
}

struct frame *frame_prompts(const struct prompt_queue *queue, size_t at, size_t max_bytes)
{
	struct frame *frame = begin("prompts", 256);
	if (at < prompt_queue_count(queue)) {
		prompt_queue_append_one(&frame->buf, queue, at);
	} else {
		prompt_queue_append_list(&frame->buf, queue, max_bytes);
	}
	return end(frame);
}

struct frame *frame_prompt_edited(const char *prompt_id)
{
	return end_prompt(begin_prompt("prompt_edited", prompt_id));
}

struct frame *frame_prompt_removed(const char *prompt_id, bool duplicate)
{
	struct frame *frame = begin_prompt("prompt_removed", prompt_id);
	put_bool(&frame->buf, "duplicate", duplicate);
	return end_prompt(frame);
}

struct frame *frame_session_gone(const char *session_id, const char *reason)
{
	struct frame *frame = begin("session_gone", 256);
	buffer_append_char(&frame->buf, '{');
	put_string(&frame->buf, "session_id", session_id);
	put_string(&frame->buf, "reason", reason);
	buffer_append_char(&frame->buf, '}');
	return end(frame);
}

struct frame *frame_draining(int64_t retry_after_ms)
{
	struct frame *frame = begin("draining", 64);
	buffer_printf(&frame->buf, "{\"retry_after_ms\":%lld}", (long long)retry_after_ms);
	return end(frame);
}

static void put_detail(struct buffer *out, const struct error_detail *detail)
{
	static const char *const names[] = {[ABOUT_PROMPT] = "prompt_id",
		[ABOUT_PERMISSION] = "request_id",
		[ABOUT_MODE] = "mode_id",
		[ABOUT_MODEL] = "model_id",
		[ABOUT_OPTION] = "config_id",
		[ABOUT_LOGIN] = "method_id"};
	if (detail->id && detail->about == ABOUT_APPEND) {
		put_name(out, "ref");
		buffer_append_str(out, detail->id);
	} else if (detail->id) {
		put_string(out, names[detail->about], detail->id);
	}
	if (detail->seq) {
		put_u64(out, "seq", detail->seq);
	}
	if (detail->by[0]) {
		put_string(out, "by", detail->by);
	}
	if (detail->sub[0]) {
		put_string(out, "sub", detail->sub);
	}
	if (detail->has_index) {
		put_u64(out, "index", detail->index);
	}
	if (detail->has_stored) {
		put_u64(out, "stored", detail->stored);
	}
	if (detail->is_in_doubt) {
		put_string(out, "outcome", "unknown");
	}
	if (detail->lost_from) {
		put_u64(out, "from", detail->lost_from);
		put_u64(out, "to", detail->lost_to);
	}
}

void frames_append_error(struct buffer *out, enum error_code code, const char *message,
	const char *request, const struct error_detail *detail)
{
	buffer_append_char(out, '{');
	put_string(out, "code", error_code_text(code));
	put_string(out, "message", message);
	if (request) {
		put_string(out, "request", request);
	}
	if (detail) {
		put_detail(out, detail);
	}
	buffer_append_char(out, '}');
}

struct frame *frame_error(enum error_code code, const char *message, const char *request,
	const struct error_detail *detail)
{
	struct frame *frame = begin("error", 256);
	frames_append_error(&frame->buf, code, message, request, detail);
	return end(frame);
}

void frames_append_session(struct buffer *out, const struct session_object *session, unsigned hide)
{
	buffer_append_char(out, '{');
	put_string(out, "id", session->id);
	put_labels(out, &session->labels);
	if (session->agent) {
		put_string(out, "agent", session->agent);
	}
	if (session->cwd && !hide) {
		put_string(out, "cwd", session->cwd);
	}
	put_epoch(out, session->epoch);
	put_u64(out, "first_seq", session->first_seq);
	put_u64(out, "max_seq", session->max_seq);
	put_u64(out, "created_at", (uint64_t)session->created_at);
	put_u64(out, "updated_at", (uint64_t)session->updated_at);
	put_string(out, "status", shown_status(session->status, session->is_prompting, hide));
	if (session->questions && !(hide & HIDE_TOOLS)) {
		put_u64(out, "questions", session->questions);
		if (session->waiting_for) {
			put_string(out, "waiting_for", session->waiting_for);
		}
	}
	put_bool(out, "is_prompting", session->is_prompting);
	put_agent_state(out, &session->agent_state, session->first_seq);
	buffer_append_char(out, '}');
}

/** Appends "acks", epoch and max_seq, without braces. */
static void put_acks(struct buffer *out, const struct append_ack *acks, size_t count,
	uint64_t epoch, uint64_t max_seq)
{
	buffer_append_str(out, "\"acks\":[");
	for (size_t i = 0; i < count; i++) {
		buffer_append_str(out, i ? ",{\"seq\":" : "{\"seq\":");
		if (acks[i].seq) {
			buffer_append_u64(out, acks[i].seq);
		} else {
			buffer_append_str(out, "null");
		}
		put_bool(out, "duplicate", acks[i].duplicate);
		buffer_append_char(out, '}');
	}
	buffer_append_char(out, ']');
	put_epoch(out, epoch);
	put_u64(out, "max_seq", max_seq);
}

static void put_counts(struct buffer *out, const struct snapshot_counts *counts)
{
	if (counts) {
		put_u64(out, "known", counts->known);
		put_u64(out, "added", counts->added);
	}
}

void frames_append_acks(struct buffer *out, const struct append_ack *acks, size_t count,
	const struct snapshot_counts *counts, uint64_t epoch, uint64_t max_seq)
{
	buffer_append_char(out, '{');
	put_acks(out, acks, count, epoch, max_seq);
	put_counts(out, counts);
	buffer_append_char(out, '}');
}

struct frame *frame_appended(const char *ref, const struct append_ack *acks, size_t count,
	const struct snapshot_counts *counts, uint64_t epoch, uint64_t max_seq)
{
	struct frame *frame = begin("appended", 64 + 40 * count);
	buffer_append_char(&frame->buf, '{');
	put_acks(&frame->buf, acks, count, epoch, max_seq);
	put_bool(&frame->buf, "durable", true);
	put_counts(&frame->buf, counts);
	if (ref) {
		buffer_append_str(&frame->buf, ",\"ref\":");
		buffer_append_str(&frame->buf, ref);
	}
	buffer_append_char(&frame->buf, '}');
	return end(frame);
}
