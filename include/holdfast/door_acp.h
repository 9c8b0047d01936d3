/* Editors that speak ACP, at /acp (docs/editors.md). */
#ifndef HOLDFAST_DOOR_ACP_H
#define HOLDFAST_DOOR_ACP_H

#include "holdfast/door.h"

extern const struct door door_acp;

#endif
