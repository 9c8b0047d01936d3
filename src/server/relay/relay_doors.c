/* The one file that knows all doors. */
#include "relay_doors.h"

#include "holdfast/door_acp.h"
#include "holdfast/door_ai.h"
#include "holdfast/door_push.h"
#include "holdfast/door_streams.h"
#include "holdfast/door_tap.h"
#include "holdfast/parts.h"
#include "server/routes/routes.h"

#include <assert.h>

static const struct route *const own_routes[] = {
	session_routes,
	observer_routes,
	producer_routes,
	feed_routes,
	blob_routes,
	queue_routes,
	login_routes,
	metrics_routes,
	agent_routes,
	completion_routes,
};

void relay_list_doors(struct door doors[RELAY_DOORS], struct push *push, struct raw_store *raw)
{
	size_t count = 0;
#if HOLDFAST_HAS_POSTGRES
	doors[count++] = door_tap;
#endif
	for (size_t i = 0; i < sizeof(own_routes) / sizeof(own_routes[0]); i++) {
		doors[count++] = (struct door){.routes = own_routes[i]};
	}
#if HOLDFAST_HAS_NOTIFY
	doors[count] = door_push;
	doors[count++].state = push;
#endif
#if HOLDFAST_HAS_AI
	doors[count++] = door_ai;
#endif
#if HOLDFAST_HAS_ACP
	doors[count++] = door_acp;
#endif
#if HOLDFAST_HAS_DURABLE_STREAMS
	doors[count++] = door_ds;
	doors[count] = door_raw;
	doors[count++].state = raw;
#endif
	for (const struct part *part = build_parts; part->name; part++) {
		if (!part->is_in && part->paths) {
			doors[count++] =
				(struct door){.routes = part->paths, .state = (void *)part};
		}
	}
	doors[count++] = (struct door){.routes = file_routes};
	doors[count++] = (struct door){0};
	assert(count <= RELAY_DOORS);
}
