/* The server's own tables of routes (door.h), each of which ends with a row without a path. */
#ifndef HOLDFAST_ROUTES_H
#define HOLDFAST_ROUTES_H

#include "holdfast/door.h"

extern const struct route session_routes[]; /* http_api.c */
extern const struct route observer_routes[]; /* ws_observer.c */
extern const struct route producer_routes[]; /* ws_producer.c */
extern const struct route feed_routes[]; /* ws_feed.c */
extern const struct route blob_routes[]; /* http_blob.c */
extern const struct route queue_routes[]; /* http_queue.c */
extern const struct route login_routes[]; /* http_login.c */
extern const struct route metrics_routes[]; /* http_metrics.c */
extern const struct route agent_routes[]; /* http_create.c */
extern const struct route completion_routes[]; /* http_complete.c */
/** Files, and what no other row fits: the last table that is searched. */
extern const struct route file_routes[]; /* files.c */

#endif
