/*
 * The reconcile room: compares the history that an agent replays when it resumes an earlier session
 * with what the log has of that session. What the log already has is dropped, however it is cut
 * into pieces; the rest is returned, to be appended as `recovered`. proto/protocol.md and align.h
 * say how the two are compared. This room knows nothing of ACP, processes or the store, and reads
 * no clock and no file.
 */
#ifndef HOLDFAST_RECONCILE_H
#define HOLDFAST_RECONCILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct reconcile;

enum said { SAID_MESSAGE, SAID_THOUGHT, SAID_PROMPT, SAID_COUNT };

/**
 * Keeps at most about `size_max` bytes of the log, as many of the replay, and as many of what is
 * new. The work is bounded as well: if a replay costs too much to compare, the rest of it is
 * dropped.
 */
struct reconcile *reconcile_create(size_t size_max);
/** Accepts NULL. */
void reconcile_destroy(struct reconcile *r);

/**
 * Adds the next event of the log; all of them must come before the replay. Borrowed; message_id may
 * be NULL.
 */
void reconcile_log(
	struct reconcile *r, const char *type, const json_t *data, const char *message_id);
/** The first events of the log are missing: they were not passed to reconcile_log(). */
void reconcile_log_is_cut(struct reconcile *r);

/**
 * Begins the next update of the replay, whose JSON has `size` bytes. Returns false if the replay is
 * too large; then the update must be skipped. Otherwise reconcile_text() or reconcile_event()
 * follow with its contents.
 */
bool reconcile_begin_update(struct reconcile *r, size_t size);
/** Adds a piece of a text; message_id may be NULL. */
void reconcile_text(
	struct reconcile *r, enum said said, const char *text, size_t len, const char *message_id);
/** Adds any other event, in the form in which the log would have it. */
void reconcile_event(struct reconcile *r, const char *type, const json_t *data);
/**
 * Whether the replay has reached the end of the log's newest turn, so that no more of it need be
 * waited for. Can be called at any time; always returns false once comparing has cost too much.
 */
bool reconcile_is_complete(struct reconcile *r);
/**
 * Whether the log's newest turn was cut off: the agent, or the server, had stopped. The replay may
 * then go on behind the log's end.
 */
bool reconcile_is_cut_off(const struct reconcile *r);
/**
 * Ends the replay and returns what is new, in order, as [{type, data, message_id?}]: input events;
 * prompts are user_prompt {message}. New reference.
 */
json_t *reconcile_finish(struct reconcile *r);
/**
 * After reconcile_finish(): whether the replay was too large, so that new events may have been left
 * out.
 */
bool reconcile_is_cut(const struct reconcile *r);
/**
 * After reconcile_finish(): whether nothing of the replay was in the log, so that it must be
 * another session.
 */
bool reconcile_is_foreign(const struct reconcile *r);

#endif
