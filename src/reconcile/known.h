/*
 * Private to src/agent: what the log has of an agent's session, in the form in which it is compared
 * with what the agent tells of it. Texts are compared without white space, thoughts by their
 * letters alone: agents tell them again in a form of their own.
 */
#ifndef HOLDFAST_ACP_KNOWN_H
#define HOLDFAST_ACP_KNOWN_H

#include "holdfast/buffer.h"
#include "holdfast/hash.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum acp_said { ACP_SAID_MESSAGE, ACP_SAID_THOUGHT, ACP_SAID_PROMPT, ACP_SAID_COUNT };

/* A shorter text stands somewhere by chance. Bytes, as compared. */
#define ACP_TELLING_LEN ((size_t)16)

/* Text as it is compared. */
struct acp_text {
	struct buffer bytes;
	struct buffer starts; /* for each byte, what begins there: enum acp_start */
};

enum acp_start { ACP_START_NONE, ACP_START_WORD, ACP_START_LINE }; /* a line, or a piece */

/* One text of the log: a block of a message, a thought, a prompt. */
struct acp_unit {
	enum acp_said said;
	uint32_t name; /* of its message; 0: none */
	size_t at; /* in the track's text */
	size_t len; /* never 0 */
	size_t turn;
	size_t seq; /* among all of the track */
	bool is_told; /* of the log's: the agent tells it, too */
};

/* One tool call. Another one may have the same id: agents count theirs anew after a restart. */
struct acp_call {
	size_t turn;
	size_t seq; /* as a unit's */
	bool is_done; /* it has its result */
	bool has_long_id; /* that no other call has */
	size_t first; /* the first one with this id, maybe this */
	size_t newest; /* of the first one with this id: the last one */
	uint64_t titles[2]; /* the first and the last, as sums; 0: none */
	uint64_t inputs[2];
	bool is_known; /* of a call that is told: the log has all of it */
	size_t taken_by; /* the call that is told for it; SIZE_MAX: none */
};

/* Events in their order: those that were heard live, or what was recovered at one time. */
struct acp_track {
	struct acp_text text;
	struct acp_unit *units;
	size_t unit_count;
	struct acp_call *calls;
	size_t call_count;
	struct hash *call_ids; /* of the first call of each id, its place + 1 */
	size_t seq_count;
	size_t turn_count; /* turn 0 is what came before the first prompt */
};

struct acp_known {
	struct acp_track **tracks; /* the first one is what was heard live */
	size_t track_count;
	bool was_recovered; /* the newest event */
	struct hash *names; /* of messages, each a number from 1 on */
	struct hash *prompts; /* those of the log, by their text */
	struct buffer prompt_lens; /* size_t: the lengths that they have */
	struct hash *others; /* events of other kinds, by what they hash to */
	size_t size; /* bytes of texts */
	size_t size_max; /* of these, and as many names as a few of them */
	size_t name_count;
	bool is_cut; /* the oldest part is not here */
};

void acp_known_init(struct acp_known *known, size_t size_max);
void acp_known_finish(struct acp_known *known);
/** The next event of the log. `data` is borrowed; message_id may be NULL. */
void acp_known_add(
	struct acp_known *known, const char *type, const json_t *data, const char *message_id);
/** The number of a message's name; 0: the log does not have it. */
uint32_t acp_known_name(const struct acp_known *known, const char *message_id);
bool acp_known_has_prompt(const struct acp_known *known, const char *bare, size_t len);
/** Whether the log has an event of this type and data, for types that are neither of the above. */
bool acp_known_has(const struct acp_known *known, const char *type, const json_t *data);

/** Appends a text as it is compared. */
void acp_text_append(struct acp_text *out, enum acp_said said, const char *text, size_t len);
/** How many bytes of a text are so many of it as it is compared. */
size_t acp_text_skip(enum acp_said said, const char *text, size_t len, size_t bare);
void acp_text_finish(struct acp_text *text);

struct acp_track *acp_track_create(void);
/** Accepts NULL. */
void acp_track_destroy(struct acp_track *track);
/**
 * A tool_call, an update of one, or what a permission_request has of it. Returns the call's place,
 * SIZE_MAX: it has no id.
 */
size_t acp_track_add_call(
	struct acp_track *track, size_t turn, const char *type, const json_t *call);
/** The first call with this id; SIZE_MAX: none. */
size_t acp_track_find_call(const struct acp_track *track, const char *id);
/** Whether two with an id in common may be one: with a short id ("call_1"), if they do the same. */
bool acp_call_fits(const struct acp_call *call, const struct acp_call *other);
/** Whether a tool_call, or an update of one, says that it has its result. */
bool acp_call_is_done(const json_t *call);

/** Room for one more behind `count`. */
void *acp_grow(void *list, size_t count, size_t size);

#endif
