/*
 * Elicitations: what an agent asks of a person besides permissions (ACP: elicitation/create), which
 * is to fill in a form or to visit a URL and come back. Agents and answers are not trusted. Pure.
 */
#ifndef HOLDFAST_ELICITATION_H
#define HOLDFAST_ELICITATION_H

#include "holdfast/refusal.h"

#include <jansson.h>
#include <stdbool.h>

/* Most fields of a form, most choices of a field, and the longest URL in bytes. */
#define ELICITATION_FIELDS_MAX  64
#define ELICITATION_CHOICES_MAX 256
#define ELICITATION_URL_MAX     2048
/* Longest elicitation id of an agent, in bytes. */
#define ELICITATION_ID_MAX 1024
/* Largest question, in bytes of JSON. */
#define ELICITATION_SIZE_MAX ((size_t)64 << 10)

/**
 * Makes the data of an elicitation_request from the params of elicitation/create: {request_id,
 * mode, message, requested_schema} or {…, elicitation_id, url}, and tool_call_id. Drops members
 * that cannot be shown. Returns a new reference, or NULL with the reason in *ret_why (static text).
 */
json_t *elicitation_read(const json_t *params, const char *request_id, const char **ret_why);
/** Whether a person can be sent to this URL: http or https, with a host and without credentials. */
bool elicitation_url_is_good(const char *url);
/**
 * Checks an answer to `question` (data of an elicitation_request). `action` must be accept, decline
 * or cancel. `content` (may be NULL) is allowed only when a form is accepted, and must satisfy the
 * form. Returns 0, or -EINVAL with `refusal` set.
 */
int elicitation_check(
	const json_t *question, const char *action, const json_t *content, struct refusal *refusal);

#endif
