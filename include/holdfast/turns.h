/*
 * Time-sliced work: deferrable work gets a fixed budget of each tick of the loop, so that urgent
 * work has the rest. First come, first served.
 */
#ifndef HOLDFAST_TURNS_H
#define HOLDFAST_TURNS_H

#include "holdfast/list.h"

#include <stdbool.h>
#include <stdint.h>

struct turns {
	struct list waiting;
	uint64_t budget_ns; /* budget per tick */
	uint64_t left_ns; /* remaining in this tick */
};

/** A piece of work; embed it in the struct that owns the work. */
struct turn {
	struct list link;
	void (*run)(struct turn *turn);
};

void turns_init(struct turns *turns, int64_t budget_ms);
void turn_init(struct turn *turn, void (*run)(struct turn *turn));
/**
 * Runs the turn now and returns true if the tick has budget left and no other waits; otherwise
 * queues it and returns false. A queued turn stays in its place.
 */
bool turns_take(struct turns *turns, struct turn *turn);
/** Removes a turn from the queue. Accepts one that is not queued. */
void turn_cancel(struct turn *turn);
bool turn_is_waiting(const struct turn *turn);
/** Restores the budget at the start of a tick. */
void turns_renew(struct turns *turns);
/** Runs queued turns while the budget lasts. Returns whether some remain. */
bool turns_go_on(struct turns *turns);

#endif
