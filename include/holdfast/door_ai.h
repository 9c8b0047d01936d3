/* The AI SDK's protocol at /api/ai/ (docs/ai-sdk.md). */
#ifndef HOLDFAST_DOOR_AI_H
#define HOLDFAST_DOOR_AI_H

#include "holdfast/door.h"

extern const struct door door_ai;

#endif
