/* The one file that knows all doors: their tables of routes, and what is at any other address. */
#include "routes.h"

#include "server/http/http_internal.h"

/**
 * What no other row fits. Below the addresses of the API there is nothing, but who has no token is
 * not told that.
 */
static const struct route other_routes[] = {
	{"/api/sessions/{id...}", "", .flags = ROUTE_SESSION | ROUTE_CHECKED},
	{"/api/{rest...}", "", .flags = 0},
	{"/{file...}", "GET", .flags = ROUTE_OPEN | ROUTE_ALWAYS | ROUTE_LINKED,
		.serve = http_get_file},
	{0},
};

const struct route *const all_routes[] = {
#if HOLDFAST_HAS_POSTGRES
	tap_routes, /* in front of the observers: a node asks for the same address */
#endif
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
#if HOLDFAST_HAS_NOTIFY
	push_routes,
#endif
#if HOLDFAST_HAS_AI
	ai_routes,
#endif
#if HOLDFAST_HAS_ACP
	editor_routes,
#endif
#if HOLDFAST_HAS_DURABLE_STREAMS
	ds_routes,
	raw_routes,
#endif
	other_routes,
	NULL,
};
