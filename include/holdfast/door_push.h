/* The push subscription of a login, at /api/push. */
#ifndef HOLDFAST_DOOR_PUSH_H
#define HOLDFAST_DOOR_PUSH_H

#include "holdfast/door.h"

/** The state is a struct push (push.h); NULL: no messages are sent. */
extern const struct door door_push;

#endif
