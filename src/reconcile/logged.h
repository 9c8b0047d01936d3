/*
 * Private to src/reconcile: what the log has of an agent's session, in the form in which it is
 * compared with what the agent tells of it. Texts are compared without white space, thoughts by
 * their letters alone: agents tell them again in a form of their own.
 */
#ifndef HOLDFAST_RECONCILE_KNOWN_H
#define HOLDFAST_RECONCILE_KNOWN_H

#include "holdfast/buffer.h"
#include "holdfast/hash.h"
#include "holdfast/reconcile.h"

#include <stdint.h>

/* A shorter text is found somewhere by chance. Bytes, as compared. */
#define TELLING_LEN ((size_t)16)

/* Text as it is compared. */
struct bare_text {
	struct buffer bytes;
	struct buffer starts; /* for each byte, what begins there: enum start */
};

enum start { START_NONE, START_WORD, START_LINE }; /* a line, or a piece */

/* One text of the log: a block of a message, a thought, a prompt. */
struct unit {
	enum said said;
	uint32_t name; /* of its message; 0: none */
	size_t at; /* in the track's text */
	size_t len; /* never 0 */
	size_t turn;
	size_t seq; /* among all of the track */
	bool is_told; /* of the log's: the agent tells it, too, or its beginning */
	bool is_told_whole;
};

/* One tool call. Another one may have the same id: agents count theirs anew after a restart. */
struct call {
	size_t turn;
	size_t seq; /* as a unit's */
	bool is_done; /* it has its result */
	bool has_long_id; /* that no other call has */
	size_t first; /* the first one with this id, maybe this */
	size_t newest; /* of the first one with this id: the last one */
	uint64_t titles[2]; /* the first and the last, as sums; 0: none */
	uint64_t inputs[2];
	bool is_logged; /* of a call that is told: the log has all of it */
	size_t taken_by; /* the call that is told for it; SIZE_MAX: none */
};

/* Events in their order: those that were heard live, or what was recovered at one time. */
struct track {
	struct bare_text text;
	struct unit *units;
	size_t unit_count;
	struct call *calls;
	size_t call_count;
	struct hash *call_ids; /* of the first call of each id, its place + 1 */
	size_t seq_count;
	size_t turn_count; /* turn 0 is what came before the first prompt */
};

struct logged {
	struct track **tracks; /* the first one is what was heard live */
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

/** What it has of the log, for tests. */
struct logged *reconcile_logged(struct reconcile *r);

void logged_init(struct logged *logged, size_t size_max);
void logged_finish(struct logged *logged);
/** The next event of the log. `data` is borrowed; message_id may be NULL. */
void logged_add(
	struct logged *logged, const char *type, const json_t *data, const char *message_id);
/** The number of a message's name; 0: the log does not have it. */
uint32_t logged_name(const struct logged *logged, const char *message_id);
bool logged_has_prompt(const struct logged *logged, const char *bare, size_t len);
/** Whether the log has an event of this type and data, for types that are neither of the above. */
bool logged_has(const struct logged *logged, const char *type, const json_t *data);

/** Appends a text as it is compared. */
void bare_text_append(struct bare_text *out, enum said said, const char *text, size_t len);
/** How many bytes of a text are so many of it as it is compared. */
size_t bare_text_skip(enum said said, const char *text, size_t len, size_t bare);
void bare_text_finish(struct bare_text *text);

struct track *track_create(void);
/** Accepts NULL. */
void track_destroy(struct track *track);
/**
 * A tool_call, an update of one, or what a permission_request has of it. Returns the call's place,
 * SIZE_MAX: it has no id.
 */
size_t track_add_call(struct track *track, size_t turn, const char *type, const json_t *call);
/** The first call with this id; SIZE_MAX: none. */
size_t track_find_call(const struct track *track, const char *id);
/** Whether two with an id in common may be one: with a short id ("call_1"), if they do the same. */
bool call_fits(const struct call *call, const struct call *other);
/** Whether a tool_call, or an update of one, says that it has its result. */
bool call_is_done(const json_t *call);

/** Room for one more behind `count`. */
void *list_grow(void *list, size_t count, size_t size);

#endif
