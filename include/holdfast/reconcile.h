/*
 * The reconcile room: the history that an agent tells again when it goes on with an earlier
 * session, held against what the log has of it. What the log has adds nothing, whatever the pieces
 * it comes in; the rest is given out, to be appended as `recovered`. How the two are compared: see
 * proto/protocol.md and align.h. It knows nothing of ACP, processes or the store, and reads no
 * clock and no file.
 */
#ifndef HOLDFAST_RECONCILE_H
#define HOLDFAST_RECONCILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct reconcile;

enum said { SAID_MESSAGE, SAID_THOUGHT, SAID_PROMPT, SAID_COUNT };

/**
 * Keeps at most about `size_max` bytes of the log, and as many of what is told, and of what is new.
 * What the replay costs is bounded, too: of one that is too much, the rest adds nothing.
 */
struct reconcile *reconcile_create(size_t size_max);
/** Accepts NULL. */
void reconcile_destroy(struct reconcile *r);

/** The next event of the log; all come before the replay. Borrowed; message_id may be NULL. */
void reconcile_log(
	struct reconcile *r, const char *type, const json_t *data, const char *message_id);
/** The log's first events are not among them. */
void reconcile_log_is_cut(struct reconcile *r);

/**
 * The next update of the replay, and the bytes that it came in: false if that is too much, and it
 * is not to be taken. Else what it tells follows.
 */
bool reconcile_begin_update(struct reconcile *r, size_t size);
/** A piece of a text; message_id may be NULL. */
void reconcile_text(
	struct reconcile *r, enum said said, const char *text, size_t len, const char *message_id);
/** Another event, as the log would have it. */
void reconcile_event(struct reconcile *r, const char *type, const json_t *data);
/**
 * Whether the newest turn of the log was told to its end: then no more need be waited for. May be
 * asked at any time; false, once too much was compared for that.
 */
bool reconcile_is_complete(struct reconcile *r);
/**
 * The replay is over. Returns what is new, in its order, [{type, data, message_id?}]: input events,
 * of prompts user_prompt {message}. New reference.
 */
json_t *reconcile_finish(struct reconcile *r);
/** After that: there was too much of it, so that something may be new and is not given. */
bool reconcile_is_cut(const struct reconcile *r);
/** After that: nothing of it was in the log, so that it is not the session it was taken for. */
bool reconcile_is_foreign(const struct reconcile *r);

#endif
