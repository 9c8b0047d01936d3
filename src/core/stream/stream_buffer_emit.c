/* Turns what the stream buffer has kept into events, in seq order. */
#include "stream_buffer_internal.h"

#include <assert.h>
#include <stdlib.h>

struct held *held_create(uint64_t seq, const struct stream_input *in)
{
	struct held *held = xcalloc(1, sizeof(*held));
	held->seq = seq;
	held->type = in->type;
	held->ts = in->ts;
	held->turn = in->turn;
	held->has_message_id = in->message_id != NULL;
	buffer_append(&held->type_name, in->type_name, in->type_len);
	buffer_append(&held->message_id, in->message_id, in->message_id ? in->message_id_len : 0);
	buffer_append(&held->data, in->data, in->data_len);
	list_init(&held->link);
	return held;
}

void held_destroy(struct held *held)
{
	if (!held) {
		return;
	}
	list_remove(&held->link);
	buffer_finish(&held->type_name);
	buffer_finish(&held->message_id);
	buffer_finish(&held->data);
	free(held);
}

void stream_emit_view(struct stream_buffer *sb, const struct event_view *view)
{
	assert(view->seq == sb->emitted_seq + 1);
	sb->emitted_seq = view->seq;
	sb->ops->emit(sb->owner, view);
}

uint64_t stream_emit_input(struct stream_buffer *sb, const struct stream_input *in)
{
	uint64_t seq = sb->next_seq++;
	stream_emit_view(sb, &(struct event_view){
				     .seq = seq,
				     .type = in->type,
				     .type_name = in->type_name,
				     .type_len = in->type_len,
				     .ts = in->ts,
				     .turn = in->turn,
				     .message_id = in->message_id,
				     .message_id_len = in->message_id_len,
				     .data = in->data,
				     .data_len = in->data_len,
			     });
	return seq;
}

static void emit_held(struct stream_buffer *sb, const struct held *held)
{
	struct buffer json = {0};
	struct event_view view = {
		.seq = held->seq,
		.type = held->type,
		.type_name = held->type_name.data,
		.type_len = held->type_name.len,
		.ts = held->ts,
		.turn = held->turn,
		.message_id = held->has_message_id
				      ? (held->message_id.len ? held->message_id.data : "")
				      : NULL,
		.message_id_len = held->message_id.len,
		.data = held->data.data,
		.data_len = held->data.len,
	};
	if (held->type == EVENT_THOUGHT_CHUNK) {
		view.type = EVENT_AGENT_THOUGHT;
		buffer_append_str(&json, "{\"text\":");
		buffer_append_json(&json, held->data.data, held->data.len);
		buffer_append_char(&json, '}');
		view.data = json.data;
		view.data_len = json.len;
	}
	stream_emit_view(sb, &view);
	buffer_finish(&json);
}

void stream_emit_all_held(struct stream_buffer *sb)
{
	list_for_each_safe(link, tmp, &sb->held) {
		struct held *held = list_entry(link, struct held, link);
		emit_held(sb, held);
		held_destroy(held);
	}
}

void stream_emit_thought(struct stream_buffer *sb)
{
	if (!sb->thought) {
		return;
	}
	struct held *thought = sb->thought;
	sb->thought = NULL;
	emit_held(sb, thought);
	held_destroy(thought);
}

void stream_emit_message(struct stream_buffer *sb, size_t len)
{
	struct open_text *open = &sb->open;
	struct buffer data = {0};
	buffer_append_str(&data, "{\"markdown\":");
	buffer_append_json(&data, open->text.data, len);
	if (open->continues) {
		buffer_printf(&data, ",\"continues\":%llu", (unsigned long long)open->continues);
		size_t context_len;
		const char *context = block_scanner_context(sb->scanner, &context_len);
		if (context_len) {
			buffer_append_str(&data, ",\"context\":");
			buffer_append_json(&data, context, context_len);
		}
		uint32_t start = sb->sizes.ends ? 0 : block_scanner_start(sb->scanner);
		if (start) {
			buffer_append_str(&data, ",\"start\":");
			buffer_append_u64(&data, start);
		}
	}
	buffer_append_char(&data, '}');
	stream_emit_view(sb,
		&(struct event_view){
			.seq = open->seq,
			.type = EVENT_AGENT_MESSAGE,
			.ts = open->ts,
			.turn = open->turn,
			.message_id = open->has_message_id ? buffer_cstr(&open->message_id) : NULL,
			.message_id_len = open->message_id.len,
			.data = data.data,
			.data_len = data.len,
		});
	buffer_finish(&data);
}
