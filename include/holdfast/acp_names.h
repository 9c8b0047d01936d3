/*
 * The structural names of ACP v1, and what they are called here. Only these are renamed: other keys may
 * be data (a map keyed by file names), and are the agent's own. Pure.
 */
#ifndef HOLDFAST_ACP_NAMES_H
#define HOLDFAST_ACP_NAMES_H

#include "holdfast/json_span.h"

#include <stdbool.h>

/** Our name for one of ACP's; NULL: it has the same here, or is none. Static text. */
const char *acp_name_ours(const char *acp);
/** The other way round: ACP's name for one of ours. */
const char *acp_name_theirs(const char *ours);
/** What is behind these keys of ACP's is the agent's or the tool's own, and is passed on as it is. */
bool acp_name_is_opaque(const char *acp);

/**
 * Appends a value of an event with ACP's names. A block whose bytes are a blob of the session
 * `session_id` becomes a resource_link to it.
 */
void acp_names_write(struct buffer *out, const struct json_span *value, const char *session_id);

#endif
