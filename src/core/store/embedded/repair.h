/*
 * Repairs a damaged log (holdfast repair). Nothing on disk changes until the session gets its new
 * epoch. Then the log is written anew, without the damage, in the order below. After a power cut
 * the session is damaged as before, or repaired, or the next start completes the repair.
 *
 *   DIR/repair/<id>                 marks a repair that may have to be completed
 *   events.jsonl.<new epoch>        the new log: good lines, lines recovered from the journal, and
 *                                   one x-holdfast-gap for each lost event
 *   a record in the journal         the session's state, under the new epoch
 *   metadata.json                   from here on the new epoch counts, and with it the new log
 *   events.jsonl                    is replaced by the new log
 *
 * The damaged log stays in set-aside/.
 */
#ifndef HOLDFAST_REPAIR_H
#define HOLDFAST_REPAIR_H

#include "embedded.h"

struct repair;

/* repair.c */
/**
 * Checks every line of a log. `why` (static text) is damage that is known already, or NULL.
 * `has_metadata`: the metadata in `log` is that of the file, not a guess. If the log is damaged,
 * its readable events are taken and embedded_log.repair is set. Returns 0 or a negative errno.
 */
int repair_look(struct session_log *log, bool has_metadata, const char *why);
/** Takes an event that replay of the journal has reproduced, to fill a gap. */
void repair_take_event(struct session_log *log, const struct event_view *view);
/** Notes that the journal has lost inputs of the session, and so an unknown number of events. */
void repair_note_journal(struct session_log *log, const char *why);
/** Counts a record of the session that is not used. Only after repair_note_journal(). */
void repair_note_unused(struct session_log *log);
/** Writes the repaired log, after the session has its new epoch: see above. Blocks. */
int repair_write(struct session_log *log);
/** Accepts NULL. */
void repair_free(struct repair *repair);

/* recover_repair.c */
struct recovery;
/** Completes the repairs that were interrupted. */
int repair_finish_all(struct store *store);
/** Removes the mark of a completed repair, and the records kept for it. */
void repair_end(struct store *store, const char *id);
/** Deletes the files of repairs in a session's folder, so that the folder can be removed. */
void repair_remove_rest(int dir_fd, const char *name);
/** holdfast repair: goes on with what is left, and writes it anew (recover_internal.h). */
extern const struct damage_rules repair_rules;
/**
 * Called before a session is set aside. If the journal has records of it, links all segments into
 * its folder, since the journal will delete them.
 */
void repair_keep_records(struct recovery *rec, const char *id);
/* set_aside.c */
/** A folder in set-aside/. */
struct set_aside {
	char id[160];
	unsigned long number;
	bool is_older; /* there is another one of the same session, with a higher number */
	bool has_session; /* the session has a folder in sessions/: it was made anew since */
};
/** Lists them by id, the newest first. The caller frees *ret. */
int set_aside_list(int dir_fd, struct set_aside **ret, size_t *ret_count);
/**
 * Links the damaged file of a session into set-aside/, under the first free name. Failure is only
 * logged. Any thread.
 */
void repair_keep_file(struct store *store, const char *id, int dir_fd, const char *name);
/**
 * Keeps the damaged log in the same way, and puts the file `fresh` in its place. Call it when nothing
 * can end the repair any more: no program appends to a log that has a second name.
 */
int repair_put_log(struct store *store, const char *id, int dir_fd, const char *fresh);
/** Moves the log of a session to set-aside/. */
int repair_drop_log(struct store *store, const char *id);
/** Notes the sessions that are in no other place: see aside.c. */
void set_aside_note_all(struct store *store);
/** Member of struct store_engine: deletes a session's folders in set-aside/. */
int set_aside_delete(struct store *store, const struct aside *session);

#endif
