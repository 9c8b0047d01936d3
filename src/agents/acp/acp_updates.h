/*
 * Private to src/agents/acp: translates what an agent says from ACP's names to ours. Pure.
 */
#ifndef HOLDFAST_ACP_UPDATES_H
#define HOLDFAST_ACP_UPDATES_H

#include "acp_agent.h"

/**
 * Reports one update (params.update of session/update) through ops->text or ops->event. Returns 0,
 * 1 if there was nothing to report (an empty chunk, the echo of a prompt), or -EINVAL with the
 * reason in *ret_why.
 */
int acp_update_report(
	const json_t *update, const struct acp_agent_ops *ops, void *owner, const char **ret_why);
/** Whether it is a piece of what the agent says or thinks. */
bool acp_update_is_chunk(const json_t *update);
/** A copy with our names; shares what needs no renaming. New reference. */
json_t *acp_update_rename(const json_t *value);
/**
 * The data of a permission_request; new reference. NULL with the reason in *ret_why if the
 * parameters are invalid.
 */
json_t *acp_update_permission(const json_t *params, const char *request_id, const char **ret_why);
/**
 * The data of the usage events that follow from a prompt's result: from its usage, or one for each
 * model from gemini's quota in its _meta. An array, possibly empty; new reference.
 */
json_t *acp_update_usages(const json_t *result);

#endif
