/* The payload of RECORD_INPUT (proto/store-format.md, kind 3): packs and parses an input. */
#include "state_internal.h"

#include "holdfast/pack.h"

#include <errno.h>

void session_input_pack(const struct input_event *input, struct buffer *out)
{
	const char *name =
		input->type == EVENT_CUSTOM ? input->type_name : event_type_name(input->type);
	size_t len = input->type == EVENT_CUSTOM ? input->type_len : strlen(name);
	buffer_reserve(out, 16 + len + input->message_id_len + input->key_len + input->data_len);
	/* Type names have at most 64 bytes. In format 2 the second byte was 0, which is rule 0. */
	pack_le(out, len, 1);
	pack_le(out, input->key ? input->sum.rule : 0, 1);
	pack_le(out, input->message_id_len, 2);
	pack_le(out, input->key_len, 2);
	buffer_append(out, name, len);
	buffer_append(out, input->message_id, input->message_id ? input->message_id_len : 0);
	if (input->key) {
		buffer_append(out, input->key, input->key_len);
		pack_le(out, input->sum.value, 8);
	}
	buffer_append(out, input->data, input->data_len);
}

int session_input_unpack(const char *bytes, size_t len, struct input_event *ret)
{
	struct unpack in = {.bytes = bytes, .len = len};
	size_t type_len = (size_t)unpack_le(&in, 1);
	unsigned rule = (unsigned)unpack_le(&in, 1);
	size_t id_len = (size_t)unpack_le(&in, 2);
	size_t key_len = (size_t)unpack_le(&in, 2);
	size_t head = type_len + id_len + (key_len ? key_len + 8 : 0);
	if (in.failed || in.len < head) {
		return -EBADMSG;
	}
	const char *key = in.bytes + type_len + id_len;
	struct unpack sum = {.bytes = key + key_len, .len = key_len ? 8 : 0};
	*ret = (struct input_event){
		.type = event_type_of(in.bytes, type_len),
		.type_name = in.bytes,
		.type_len = type_len,
		.message_id = id_len ? in.bytes + type_len : NULL,
		.message_id_len = id_len,
		.key = key_len ? key : NULL,
		.key_len = key_len,
		.sum = {.value = key_len ? unpack_le(&sum, 8) : 0, .rule = rule},
		.data = in.bytes + head,
		.data_len = in.len - head,
	};
	return ret->type == EVENT_UNKNOWN ? -EBADMSG : 0;
}
