/* Left-out sessions, and reading the journal again while the server runs: embedded engine. */
#ifndef HOLDFAST_STORE_LEFT_OUT_H
#define HOLDFAST_STORE_LEFT_OUT_H

#include "holdfast/store.h"

/* left_out.c */
/** Member of struct store_engine. */
bool left_out_has(const struct store *store, const char *id, size_t len);
void left_out_init(struct store *store);
void left_out_finish(struct store *store);
/** Leaves a session out: its files are not changed, and reading them is retried. */
void left_out_add(struct store *store, const char *id);
void left_out_remove(struct store *store, const char *id);
/** Frees the table. */
void left_out_forget(struct store *store);
/** Schedules the next attempt to read them. */
void left_out_try_later(struct store *store);
/** Whether old segments must be kept even after all logs were checkpointed. */
bool store_keeps_segments(const struct store *store);

/* look_back.c */
/** Member of struct store_engine. */
void look_back_rewind(struct store *store);
/** Tries to read a left-out session on the thread pool; if that works, returned() follows. */
void look_back_for(struct store *store, const char *id);

#endif
