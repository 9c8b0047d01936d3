/*
 * Maps the structural names of ACP v1 to ours and back. Only these are renamed: other keys can be
 * data, as in a map keyed by file names, and belong to the agent. Pure.
 */
#ifndef HOLDFAST_ACP_NAMES_H
#define HOLDFAST_ACP_NAMES_H

#include "holdfast/json_span.h"

#include <stdbool.h>

/** Returns our name for an ACP name, or NULL if it is not renamed. Static text. */
const char *acp_name_ours(const char *acp);
/** Returns the ACP name for one of ours, or NULL. Static text. */
const char *acp_name_theirs(const char *ours);
/** Whether the value of this ACP key belongs to the agent or tool, and is passed on unchanged. */
bool acp_name_is_opaque(const char *acp);

/**
 * Appends a value from an event with ACP's names. A content block whose bytes are a blob of the
 * session `session_id` becomes a resource_link.
 */
void acp_names_write(struct buffer *out, const struct json_span *value, const char *session_id);

#endif
