/* Shared by witness.c, which watches, and witness_inputs.c. */
#ifndef HOLDFAST_TESTS_WITNESS_INTERNAL_H
#define HOLDFAST_TESTS_WITNESS_INTERNAL_H

#include "witness.h"

/** By the changes of the power disk. */
size_t witness_now(const struct witness *w);
/** NULL: the session is deleted. */
struct life *witness_life_of(const struct witness *w, const struct session *session);
/** Loads and follows a session from what was shown of it on. */
void witness_watch(struct life *life);
/** Notes what the session has become by an input that was sent at `sent`. */
void witness_add_state(struct life *life, size_t sent);
/** What was refused is in nobody's way. */
void witness_check_taken_back(struct life *life);

#endif
