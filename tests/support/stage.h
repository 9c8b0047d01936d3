/* One session in a rig, and one observer of it: what the tests of sessions and observers begin
 * with. */
#ifndef HOLDFAST_TESTS_STAGE_H
#define HOLDFAST_TESTS_STAGE_H

#include "fake_socket.h"
#include "rig.h"

struct stage {
	struct rig rig;
	struct session *session;
	struct channel *channel;
	struct fake_socket socket; /* opened by a test, or by stage_watch() */
};

/**
 * Fixtures of cmocka. The store is in memory, unless a test wants its files. Cold: every event of
 * the session has to be read from the engine.
 */
int stage_setup(void **state);
int stage_setup_on_disk(void **state);
int stage_setup_cold(void **state);
int stage_setup_cold_on_disk(void **state);
int stage_teardown(void **state);

/** Puts notes in: a line of some 130 bytes each. */
void stage_append(struct stage *st, int count);
/** The same, and they are committed. */
void stage_fill(struct stage *st, int count);
void stage_open_socket(struct stage *st, enum deltas deltas);
/** An observer that has loaded everything, and whose log is empty again. */
void stage_watch(struct stage *st);
/** The server stops and starts again; the observer comes back and loads everything. */
void stage_restart(struct stage *st);

static inline struct load_request load_after(uint64_t seq, size_t limit, bool follow)
{
	return (struct load_request){
		.from = LOAD_AFTER, .seq = seq, .limit = limit, .follow = follow};
}

static inline struct load_request load_newest(size_t limit)
{
	return (struct load_request){.from = LOAD_NEWEST, .limit = limit};
}

static inline struct load_request load_before(uint64_t seq, size_t limit)
{
	return (struct load_request){.from = LOAD_BEFORE, .seq = seq, .limit = limit};
}

#endif
