/*
 * A second engine of the store, for tests: what is durable is in memory. It behaves as one whose
 * database is elsewhere: answers come in a later turn of the loop, may be lost, and another server
 * may have taken a session.
 */
#ifndef HOLDFAST_TESTS_MEMORY_ENGINE_H
#define HOLDFAST_TESTS_MEMORY_ENGINE_H

#include "holdfast/store.h"

/** The database: stores come and go, it stays. */
struct memory;

extern const struct store_engine memory_engine;

struct memory *memory_create(void);
/** No store may be open in it. Accepts NULL. */
void memory_destroy(struct memory *memory);

enum memory_fault {
	MEMORY_WORKS,
	MEMORY_FAILS, /* the group is refused */
	MEMORY_ANSWER_IS_LOST, /* it is durable, and nobody says so */
	MEMORY_IS_LATE, /* nobody says anything, and it is tried only after that; makes no session */
};

/** What becomes of the next group. */
void memory_fault(struct memory *memory, enum memory_fault fault);
/** Another server takes a session over. */
void memory_take_over(struct memory *memory, const char *id);
/** How many events a session has; -1: there is none of this name. */
int memory_count_events(const struct memory *memory, const char *id);

#endif
