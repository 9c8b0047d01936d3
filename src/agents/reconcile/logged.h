/*
 * Private to src/agents/reconcile: what the log has of an agent's session, in the form in which it is
 * compared with the agent's replay. Texts are compared without white space, and thoughts by their
 * letters and digits alone, because agents replay them in a form of their own.
 */
#ifndef HOLDFAST_RECONCILE_KNOWN_H
#define HOLDFAST_RECONCILE_KNOWN_H

#include "holdfast/buffer.h"
#include "holdfast/hash.h"
#include "reconcile.h"

#include <stdint.h>

/* A text shorter than this may match by chance. Bytes, as compared. */
#define TELLING_LEN ((size_t)16)

/* Text as it is compared. */
struct bare_text {
	struct buffer bytes;
	struct buffer starts; /* for each byte, an enum start: what begins there */
};

/* START_LINE: a line, or a piece of the replay */
enum start { START_NONE, START_WORD, START_LINE };

/* One text of the log: a block of a message, a thought, a prompt. */
struct unit {
	enum said said;
	uint32_t name; /* number of its message's name; 0: none */
	size_t at; /* offset in the track's text */
	size_t len; /* never 0 */
	size_t turn;
	size_t seq; /* position among all units and calls of the track */
	bool is_told; /* a unit of the log: it, or its beginning, is replayed too */
	bool is_told_whole;
};

/* One tool call. Others can have the same id: some agents restart their count with each start. */
struct call {
	size_t turn;
	size_t seq; /* as in struct unit */
	bool is_done; /* it has its result */
	bool has_long_id; /* the id is long enough to be unique */
	size_t first; /* the first call with this id, possibly this one */
	size_t newest; /* of the first call with this id: the last call with it */
	uint64_t titles[2]; /* hashes of the first and the last title; 0: none */
	uint64_t inputs[2];
	bool is_logged; /* of a replayed call: the log has all of it */
	size_t taken_by; /* the call of the other side that it is matched with; SIZE_MAX: none */
};

/* Events in order: those that were received live, or those of one recovery. */
struct track {
	struct bare_text text;
	struct unit *units;
	size_t unit_count;
	struct call *calls;
	size_t call_count;
	struct hash *call_ids; /* maps an id to the index + 1 of the first call with it */
	size_t seq_count;
	size_t turn_count; /* turn 0 is what precedes the first prompt */
};

struct logged {
	struct track **tracks; /* the first one is what was received live */
	size_t track_count;
	bool was_recovered; /* the newest event was a recovered one */
	struct hash *names; /* of messages; each maps to a number from 1 on */
	struct hash *prompts; /* the prompts of the log, by their text as compared */
	struct buffer prompt_lens; /* size_t: their lengths */
	struct hash *others; /* events of other types, by their hash */
	size_t size; /* bytes of texts */
	size_t size_max; /* limit for `size`; also limits the number of names */
	size_t name_count;
	bool is_cut; /* the oldest part of the log is missing */
	bool is_cut_off; /* the newest turn ended because the agent, or the server, had stopped */
};

/** The collected log; for tests. */
struct logged *reconcile_logged(struct reconcile *r);

void logged_init(struct logged *logged, size_t size_max);
void logged_finish(struct logged *logged);
/** Adds the next event of the log. `data` is borrowed; message_id may be NULL. */
void logged_add(
	struct logged *logged, const char *type, const json_t *data, const char *message_id);
/** The number of a message's name; 0 if the log does not have it. */
uint32_t logged_name(const struct logged *logged, const char *message_id);
bool logged_has_prompt(const struct logged *logged, const char *bare, size_t len);
/**
 * Whether the log has an event of this type and data; for types that are neither texts nor calls.
 */
bool logged_has(const struct logged *logged, const char *type, const json_t *data);

/** Appends a text in the form in which it is compared. */
void bare_text_append(struct bare_text *out, enum said said, const char *text, size_t len);
/** Returns how many bytes of a raw text correspond to `bare` bytes of it as compared. */
size_t bare_text_skip(enum said said, const char *text, size_t len, size_t bare);
void bare_text_finish(struct bare_text *text);

struct track *track_create(void);
/** Accepts NULL. */
void track_destroy(struct track *track);
/**
 * Adds a tool_call, an update of one, or the tool_call of a permission_request. Returns the call's
 * index, or SIZE_MAX if it has no id.
 */
size_t track_add_call(struct track *track, size_t turn, const char *type, const json_t *call);
/** Returns the first call with this id; SIZE_MAX: none. */
size_t track_find_call(const struct track *track, const char *id);
/**
 * Whether two calls with the same id can be the same call; those with a short id ("call_1") only if
 * they do the same.
 */
bool call_fits(const struct call *call, const struct call *other);
/** Whether a tool_call, or an update of one, has its result. */
bool call_is_done(const json_t *call);

/** Makes room for one more element of `size` bytes after `count` elements. */
void *list_grow(void *list, size_t count, size_t size);

#endif
