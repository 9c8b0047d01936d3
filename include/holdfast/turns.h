/*
 * Work that may wait, done in turns: so much time of each tick of the loop, whatever is asked for,
 * so that what must not wait has the rest. Whoever came first is served first.
 */
#ifndef HOLDFAST_TURNS_H
#define HOLDFAST_TURNS_H

#include "holdfast/list.h"

#include <stdbool.h>
#include <stdint.h>

struct turns {
	struct list waiting;
	uint64_t budget_ns; /* of a tick */
	uint64_t left_ns; /* of this one */
};

/** Embedded in the struct of whoever has work to do. */
struct turn {
	struct list link;
	void (*run)(struct turn *turn);
};

void turns_init(struct turns *turns, int64_t budget_ms);
void turn_init(struct turn *turn, void (*run)(struct turn *turn));
/** Runs it now, if this tick has time left and nobody waits; else later. False: it waits. */
bool turns_take(struct turns *turns, struct turn *turn);
/** It is not run any more. Accepts one that does not wait. */
void turn_cancel(struct turn *turn);
bool turn_is_waiting(const struct turn *turn);
/** A new tick of the loop: there is time again. */
void turns_renew(struct turns *turns);
/** Runs those that wait, as far as the time goes. Returns whether some still wait. */
bool turns_go_on(struct turns *turns);

#endif
