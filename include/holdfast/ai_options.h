/* The options of serve for chats of the AI SDK; their state is struct server_trust. */
#ifndef HOLDFAST_AI_OPTIONS_H
#define HOLDFAST_AI_OPTIONS_H

#include "holdfast/option_rows.h"

extern const struct option_group ai_options;

#endif
