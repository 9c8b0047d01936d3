/* Sessions that could not be read, and looking back into the journal: for the embedded engine. */
#ifndef HOLDFAST_STORE_LEFT_OUT_H
#define HOLDFAST_STORE_LEFT_OUT_H

#include "holdfast/store.h"

/* left_out.c */
/** Of struct store_engine. */
bool left_out_has(const struct store *store, const char *id, size_t len);
void left_out_init(struct store *store);
void left_out_finish(struct store *store);
/** A session stays as it is on disk, and is tried again. */
void left_out_add(struct store *store, const char *id);
void left_out_remove(struct store *store, const char *id);
/** Forgets them all. */
void left_out_forget(struct store *store);
/** Tries them when that is due. */
void left_out_try_later(struct store *store);
/** Whether the journal's older segments are needed beyond the checkpoints of all logs. */
bool store_keeps_segments(const struct store *store);

/* look_back.c */
/** Of struct store_engine. */
void look_back_rewind(struct store *store);
/** Tries to read a session that was left out, on the thread pool; returned() follows if it can. */
void look_back_for(struct store *store, const char *id);

#endif
