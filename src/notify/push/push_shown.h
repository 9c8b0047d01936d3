/*
 * Which browsers were told that a session waits, and not yet that this is over. In memory: after a
 * restart nothing is taken back.
 */
#ifndef HOLDFAST_PUSH_SHOWN_H
#define HOLDFAST_PUSH_SHOWN_H

#include "holdfast/access.h"
#include "holdfast/hash.h"

#include <stdbool.h>

struct push_shown {
	struct hash *sessions; /* struct shown, by session id */
};

void push_shown_init(struct push_shown *shown);
void push_shown_finish(struct push_shown *shown);
/** Adds a login to those that were told; once. Copies both. */
void push_shown_add(struct push_shown *shown, const char *session, const char *login);
bool push_shown_has(const struct push_shown *shown, const char *session, const char *login);
void push_shown_remove(struct push_shown *shown, const char *session, const char *login);
/** Removes the logins of a session that have no subscription any more. */
void push_shown_tidy(struct push_shown *shown, const char *session, struct access *access);

#endif
