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
	tap_routes, /* in front of the observers: a node asks for the same address */
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
	push_routes,
	ai_routes,
	editor_routes,
	ds_routes,
	raw_routes,
	other_routes,
	NULL,
};
