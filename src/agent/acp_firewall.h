/*
 * Private to src/agent: what an agent that is asked to go on with an earlier session (ACP's
 * session/load) tells of its history, held against what the log has of it. What the log has adds
 * nothing, whatever the pieces it comes in; the rest is given out, to be appended as `recovered`.
 *
 * Agents tell their history in a form of their own: a message in one piece, white space dropped,
 * half a turn missing after a crash. So texts are compared without white space, each in the turn
 * that it belongs to, and tool calls by their ids. Nothing here reads a clock or a file.
 */
#ifndef HOLDFAST_ACP_FIREWALL_H
#define HOLDFAST_ACP_FIREWALL_H

#include "holdfast/buffer.h"
#include "holdfast/hash.h"
#include "holdfast/json_text.h"

#include <jansson.h>
#include <stdbool.h>

enum acp_said { ACP_SAID_MESSAGE, ACP_SAID_THOUGHT, ACP_SAID_PROMPT, ACP_SAID_COUNT };

/* acp_known.c: what the log has of the agent's session */

/* A prompt and all that follows it, up to the next one. Turn 0 is what came before the first. */
struct acp_known_turn {
	size_t begin[ACP_SAID_COUNT]; /* where its texts begin; the prompt is the first of its own
				       */
};

struct acp_known {
	struct buffer texts[ACP_SAID_COUNT]; /* one after the other, without white space */
	struct buffer recovered[ACP_SAID_COUNT]; /* the same of what was recovered before */
	struct acp_known_turn *turns;
	size_t turn_count;
	struct hash *names; /* of tool calls and messages; see struct acp_known_name */
	struct hash *others; /* events of other kinds, by what they hash to */
	size_t size_max; /* bytes of texts, and as many names as a few of them */
	bool is_cut; /* the oldest part is not here */
	size_t work; /* bytes that were looked through */
};

/* A shorter text stands somewhere by chance. Bytes, as compared. */
#define ACP_TELLING_LEN ((size_t)16)

/* What is known of a name. */
struct acp_known_name {
	bool found;
	bool is_done; /* a tool call has its result */
	size_t turn; /* ACP_NO_TURN: it is not known which */
};
#define ACP_NO_TURN (SIZE_MAX / 4)

void acp_known_init(struct acp_known *known, size_t size_max);
void acp_known_finish(struct acp_known *known);
/** The next event of the log. `data` is borrowed; message_id may be NULL. */
void acp_known_add(
	struct acp_known *known, const char *type, const json_t *data, const char *message_id);
/** Where the texts of a turn end. */
size_t acp_known_turn_end(const struct acp_known *known, size_t turn, enum acp_said said);
/** The turn that the text at `at` is of. */
size_t acp_known_turn_of(const struct acp_known *known, enum acp_said said, size_t at);
/** Whether a tool_call, or an update of one, says that it has its result. */
bool acp_known_call_is_done(const json_t *call);
struct acp_known_name acp_known_tool(const struct acp_known *known, const char *tool_call_id);
struct acp_known_name acp_known_message(const struct acp_known *known, const char *message_id);
/** Whether the log has an event of this type and data, for types that are neither of the above. */
bool acp_known_has(const struct acp_known *known, const char *type, const json_t *data);
/** Appends a text as it is compared. Returns how many of its bytes that took, if `max` is given. */
size_t acp_known_normalize(
	struct buffer *out, enum acp_said said, const char *text, size_t len, size_t max);

/** Where the text stands in another one, from `from` to `to`; SIZE_MAX: nowhere. */
size_t acp_known_find(struct acp_known *known, const struct buffer *in, size_t from, size_t to,
	const struct buffer *text);
/** So much was looked through that nothing more is found: what is told now need not be new. */
bool acp_known_is_exhausted(const struct acp_known *known);

/* acp_known_prompts.c */

bool acp_known_has_same_prompt(struct acp_known *known, size_t turn, size_t other);
/**
 * The turn, from `from` on, whose prompt is the text; or of several in a row, the last. SIZE_MAX
 */
size_t acp_known_find_whole_prompt(struct acp_known *known, size_t from, const struct buffer *text);
/**
 * The same, or else one that has the text inside, or is inside of it: agents put things around a
 * prompt, or tell a part of it.
 */
size_t acp_known_find_prompt(struct acp_known *known, size_t from, const struct buffer *text);

/* acp_firewall.c */

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
 * The replay is over. Returns what is new, in its order, [{type, data, message_id?}]: input events,
 * of prompts user_prompt {message}. New reference.
 */
json_t *acp_firewall_finish(struct acp_firewall *fw);
/** After that: there was too much of it, so that something may be new and is not given. */
bool acp_firewall_is_cut(const struct acp_firewall *fw);
/** After that: nothing of it was in the log, so that it is not the session it was taken for. */
bool acp_firewall_is_foreign(const struct acp_firewall *fw);

#endif
