/* Damaged sessions that are not served: their ids stay taken. */
#ifndef HOLDFAST_ASIDE_H
#define HOLDFAST_ASIDE_H

#include <stdbool.h>
#include <stdint.h>

struct store;

/** A damaged session that is not served: see aside.c. */
struct aside {
	char *id;
	int64_t number; /* in a database: sid and fence of its row */
	uint64_t fence;
	bool is_going; /* it is being deleted */
};

/* aside.c */
/** Notes a damaged session. Nothing changes if it is known. */
void aside_add(struct store *store, const char *id, int64_t number, uint64_t fence);
/** The session is gone, or is served again. */
void aside_remove(struct store *store, const char *id);
/** Other servers may have them now. */
void aside_forget_all(struct store *store);
/** Adds those of one store to another. */
void aside_move_all(struct store *from, struct store *to);
/** Frees the table. */
void aside_finish(struct store *store);

#endif
