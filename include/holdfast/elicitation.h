/*
 * What an agent asks a person for beside permissions (ACP: elicitation/create): values of a form, or to go to an address
 * and come back. Agents and answers are hostile here. Pure.
 */
#ifndef HOLDFAST_ELICITATION_H
#define HOLDFAST_ELICITATION_H

#include "holdfast/refusal.h"

#include <jansson.h>
#include <stdbool.h>

/* Fields of a form, values that one may be chosen from, and bytes of an address. */
#define ELICITATION_FIELDS_MAX  64
#define ELICITATION_CHOICES_MAX 256
#define ELICITATION_URL_MAX     2048
/* Bytes of an agent's name for one. */
#define ELICITATION_ID_MAX 1024
/* Bytes of a question as JSON. */
#define ELICITATION_SIZE_MAX ((size_t)64 << 10)

/**
 * The data of an elicitation_request from the params of elicitation/create: {request_id, mode, message, requested_schema}
 * or {…, elicitation_id, url}, and tool_call_id. What nobody can be shown is left out. A new reference; NULL with the
 * reason in *ret_why (static text).
 */
json_t *elicitation_read(const json_t *params, const char *request_id, const char **ret_why);
/** Whether it is an address of http or https that a person can be sent to. */
bool elicitation_url_is_good(const char *url);
/**
 * Checks an answer to `question`, such data: `action` is accept, decline or cancel; `content` (NULL: none) belongs to accept and
 * to a form, and has what the form asks for. -EINVAL with the refusal.
 */
int elicitation_check(
	const json_t *question, const char *action, const json_t *content, struct refusal *refusal);

#endif
