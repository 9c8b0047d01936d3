/* Placeholders for lost events: proto/protocol.md#damaged-events. */
#include "holdfast/event.h"

#include <inttypes.h>
#include <string.h>

bool event_is_gap(const struct event_view *view)
{
	return view->type == EVENT_CUSTOM && view->type_len == strlen(EVENT_GAP) &&
	       memcmp(view->type_name, EVENT_GAP, view->type_len) == 0;
}

struct event *event_create_gap(uint64_t seq, uint64_t from, uint64_t to, int64_t ts)
{
	struct buffer data = {0};
	buffer_printf(
		&data, "{\"from\":%" PRIu64 ",\"to\":%" PRIu64 ",\"why\":\"damaged\"}", from, to);
	struct event *event = event_create(&(struct event_view){.seq = seq,
		.type = EVENT_CUSTOM,
		.type_name = EVENT_GAP,
		.type_len = strlen(EVENT_GAP),
		.ts = ts,
		.data = data.data,
		.data_len = data.len});
	buffer_finish(&data);
	return event;
}
