/* Reading a session's log event by event, through the store. */
#ifndef HOLDFAST_TESTS_READING_H
#define HOLDFAST_TESTS_READING_H

#include "rig.h"

/** Nothing of a log is spoilt. */
#define UNSPOILT SIZE_MAX

/**
 * Reads one page. Returns how many events came; they are unreferenced. A negative errno if none.
 */
int reading_page(struct rig *rig, struct session *session, uint64_t from, uint64_t to,
	struct buffer *ret_text);
/**
 * Every event is as the original log has it, or cannot be read, and that is so only for the lines
 * that byte `spoilt` belongs to.
 */
void reading_check(
	struct rig *rig, struct session *session, const struct buffer *original, size_t spoilt);

#endif
