/* Durable Streams (docs/durable-streams.md). */
#ifndef HOLDFAST_DOOR_STREAMS_H
#define HOLDFAST_DOOR_STREAMS_H

#include "holdfast/door.h"

/** Sessions, read at /ds/sessions/. */
extern const struct door door_ds;
/** Raw streams at /v1/stream/. The state is a struct raw_store (raw.h); NULL: they are off. */
extern const struct door door_raw;

#endif
