/* How an input stands in the journal (proto/store-format.md, "Input record"). */
#include "session_internal.h"

#include "holdfast/pack.h"

#include <errno.h>

void session_input_pack(const struct input_event *input, struct buffer *out)
{
	const char *name =
		input->type == EVENT_CUSTOM ? input->type_name : event_type_name(input->type);
	size_t len = input->type == EVENT_CUSTOM ? input->type_len : strlen(name);
	pack_le(out, len, 2);
	pack_le(out, input->message_id_len, 2);
	buffer_append(out, name, len);
	buffer_append(out, input->message_id, input->message_id ? input->message_id_len : 0);
	buffer_append(out, input->data, input->data_len);
}

int session_input_unpack(const char *bytes, size_t len, struct input_event *ret)
{
	struct unpack in = {.bytes = bytes, .len = len};
	size_t type_len = (size_t)unpack_le(&in, 2);
	size_t id_len = (size_t)unpack_le(&in, 2);
	if (in.failed || in.len < type_len + id_len) {
		return -EBADMSG;
	}
	*ret = (struct input_event){
		.type = event_type_of(in.bytes, type_len),
		.type_name = in.bytes,
		.type_len = type_len,
		.message_id = id_len ? in.bytes + type_len : NULL,
		.message_id_len = id_len,
		.data = in.bytes + type_len + id_len,
		.data_len = in.len - type_len - id_len,
	};
	return ret->type == EVENT_UNKNOWN ? -EBADMSG : 0;
}
