/*
 * A PostgreSQL of the test's own, and what a test does to it behind the server's back. One at a
 * time. A program that uses it is linked with --wrap=PQgetResult: so answers get lost.
 */
#ifndef HOLDFAST_TESTS_POSTGRES_H
#define HOLDFAST_TESTS_POSTGRES_H

#include "holdfast/buffer.h"

#include <stdbool.h>

/** Starts it; the address is good until postgres_stop(). */
const char *postgres_start(void);
void postgres_stop(void);
/** The address, while it runs. */
const char *postgres_address(void);
/** The same two as fixtures of a group of tests. */
int postgres_set_up(void **state);
int postgres_tear_down(void **state);
/** Where its socket is. */
const char *postgres_dir(void);
/** Nothing is in it any more. */
void postgres_clear(void);
/** From now on it refuses what is written, or takes it again. */
void postgres_refuse(bool refuses);

enum postgres_fault {
	POSTGRES_ANSWER_IS_LOST, /* the transaction is over, and the connection breaks */
	POSTGRES_IS_LATE, /* it breaks while the transaction waits, which then goes on */
};
/** What becomes of the answer to the next group. */
void postgres_fault(enum postgres_fault fault);

/** Another server takes a session over. */
void postgres_take_over(const char *id);
/** How many events a session has; -1: there is none of this name. */
int postgres_count_events(const char *id);
/** What it has in place of a session's file: the lines of `events.jsonl` or `keys.jsonl`. */
void postgres_read_file(const char *id, const char *name, struct buffer *out);
/** Runs a statement; returns the number in its first row, or 0. */
long postgres_ask(const char *sql);

#endif
