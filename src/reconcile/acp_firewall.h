/*
 * Private to src/agent: what an agent that is asked to go on with an earlier session (ACP's
 * session/load) tells of its history, held against what the log has of it. What the log has adds
 * nothing, whatever the pieces it comes in; the rest is given out, to be appended as `recovered`.
 * How they are compared: acp_align.h. Nothing here reads a clock or a file.
 */
#ifndef HOLDFAST_ACP_FIREWALL_H
#define HOLDFAST_ACP_FIREWALL_H

#include "known.h"

struct acp_firewall;

/**
 * Keeps at most about `size_max` bytes of the log, and as many of what is told, and of what is new.
 * What the replay costs is bounded, too: of one that is too much, the rest adds nothing.
 */
struct acp_firewall *acp_firewall_create(size_t size_max);
/** Accepts NULL. */
void acp_firewall_destroy(struct acp_firewall *fw);
/** What the log has; filled before the first update is taken. */
struct acp_known *acp_firewall_known(struct acp_firewall *fw);
/** One update (params.update of session/update) of the replay, and the bytes that it came in. */
void acp_firewall_take(struct acp_firewall *fw, const json_t *update, size_t size);
/**
 * Whether the newest turn of the log was told to its end: then no more need be waited for. May be
 * asked at any time; false, once too much was compared for that.
 */
bool acp_firewall_is_complete(struct acp_firewall *fw);
/**
 * The replay is over. Returns what is new, in its order, [{type, data, message_id?}]: input events,
 * of prompts user_prompt {message}. New reference.
 */
json_t *acp_firewall_finish(struct acp_firewall *fw);
/** After that: there was too much of it, so that something may be new and is not given. */
bool acp_firewall_is_cut(const struct acp_firewall *fw);
/** After that: nothing of it was in the log, so that it is not the session it was taken for. */
bool acp_firewall_is_foreign(const struct acp_firewall *fw);

#endif
