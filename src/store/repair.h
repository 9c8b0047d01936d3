/*
 * Repair of a damaged log (holdfast repair). Nothing on disk changes until the session gets its new
 * epoch: then the log is written anew, without the damage, in this order, so that a power cut
 * leaves a session that is damaged as before, or repaired, or one that the next start finishes:
 *
 *   DIR/repair/<id>                 says that there may be something to finish
 *   events.jsonl.<new epoch>        the new log: good lines, lines that the journal gave again,
 *                                   and one x-holdfast-gap for each event that is lost
 *   a record in the journal         the session's state, under the new epoch
 *   metadata.json                   the new epoch counts from here on, and with it that file
 *   events.jsonl                    is replaced by it
 *
 * The damaged log stays in set-aside/.
 */
#ifndef HOLDFAST_REPAIR_H
#define HOLDFAST_REPAIR_H

#include "store_internal.h"

struct repair;

/* repair.c */
/**
 * Looks at every line of a log whose metadata has been taken; `why` (static text) says what is
 * known to be wrong already, NULL: nothing is. `has_metadata`: what it says of the log counts.
 * If the log is damaged, it gets what can be had of it, and log->repair. Returns 0 or a negative errno.
 */
int repair_look(struct session_log *log, bool has_metadata, const char *why);
/** The journal has an event again. */
void repair_take_event(struct session_log *log, const struct event_view *view);
/** Something of it is lost in the journal, whose events are not known. */
void repair_note_journal(struct session_log *log, const char *why);
/** With the new epoch in place: see above. */
int repair_write(struct session_log *log);
/** Accepts NULL. */
void repair_free(struct repair *repair);

/* recover_repair.c */
struct recovery;
/** Ends what a repair that was killed had decided. */
int repair_finish_all(struct store *store);
/** It is done: nothing is to be finished, and no records are kept. */
void repair_end(struct store *store, const char *id);
/** What a repair that was killed has left in a session's folder, which is removed. */
void repair_remove_rest(int dir_fd, const char *name);
/** Puts sessions that were set aside back in their places. */
int repair_bring_back(struct recovery *rec);
/**
 * The records of a session that is about to be set aside are kept in its folder: the journal's next
 * start would drop them.
 */
void repair_keep_records(struct recovery *rec, const char *id);
/** Replays what was kept so; *ret_had: there was something. */
int repair_replay_kept(struct recovery *rec, struct session_log *log, bool *ret_had);
/** A segment of the journal that cannot be read to its end stays in set-aside/, too. */
void repair_keep_segment(struct store *store, const char *name);
/** What can be known of a session whose metadata.json cannot be read; the caller frees it. */
struct metadata repair_guess_metadata(struct store *store, const char *id);
/** Counts sessions that are set aside. */
void repair_count_set_aside(struct store *store);

#endif
