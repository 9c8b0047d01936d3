/*
 * A session table on a data directory of its own, with a loop, for tests. No timer decides anything
 * unless a test wants it to: the timeouts are longer than any test.
 */
#ifndef HOLDFAST_TESTS_RIG_H
#define HOLDFAST_TESTS_RIG_H

#include "holdfast/intake.h"
#include "holdfast/session.h"

/** Somebody who has no token. */
#define AUTHOR(id) (&(struct author){.client_id = (id), .sub = ""})

struct rig {
	uv_loop_t loop;
	struct limits limits; /* a test may change them before rig_open() */
	struct clock clock;
	struct session_table *table;
	char *dir;
	bool owns_dir;
	struct memory *memory; /* where the store is then, in place of the directory */
	const char *database; /* the same: its address */
	/* What that has in place of a session's file; NULL: the directory has it. */
	void (*read_file)(const char *id, const char *name, struct buffer *out);
	const char *node_address; /* others use it, too; NULL: nobody does */
	bool takes_older; /* a database that is an older copy: store_place */
	char *why; /* why rig_open() failed */
	struct server_life life;
	struct metrics *metrics; /* set by a test that counts; its own */
	struct buffer told; /* what the floors above were told, `prompt s 3 hello; deleted s` */
	bool is_failing; /* the store takes no inputs */
	uv_prepare_t prepare;
	uv_timer_t guard;
	uv_timer_t beat;
	enum store_durability durability;
};

/** A fresh directory; nothing is opened yet. */
void rig_init(struct rig *rig);
/** The same in memory: for tests that need a store, and not its files. */
void rig_init_in_memory(struct rig *rig);
/** The same in a PostgreSQL, whose address the caller keeps. */
void rig_init_in_postgres(struct rig *rig, const char *address);
/** The same on a directory that is there; it is not removed in the end. */
void rig_init_on(struct rig *rig, const char *dir);
/**
 * Ends everything; nothing may be left on the loop. Removes the directory if rig_init() made it.
 */
void rig_finish(struct rig *rig);

/** Where its store is. */
struct store_place rig_place(const struct rig *rig);
int rig_open(struct rig *rig);
/** The same, with functions of the test's own. */
int rig_open_for(struct rig *rig, const struct session_ops *ops, void *owner);
/** As a server that is told to stop. */
void rig_close(struct rig *rig);

/** Time goes by, as in a suspend: timers of the loop know nothing of it. */
void rig_pass(struct rig *rig, int64_t ms);
/** Somebody sets the wall clock. */
void rig_set_clock(struct rig *rig, int64_t ms);
/** Runs the loop until the journal is synced and no work is left on the thread pool. */
void rig_settle(struct rig *rig);
/** One tick of the loop, which does not wait. */
void rig_turn(struct rig *rig);
/** Runs the loop until a record is on its way to the disk, and no further. */
void rig_wait_for_launch(struct rig *rig, int64_t lsn);
#define RIG_NEVER 100000000
/** Every timeout of the stream buffer; RIG_NEVER at the start. */
void rig_set_timeouts(struct rig *rig, int64_t ms);
/** Runs the loop until the session shows this seq. */
void rig_wait_for_seq(struct rig *rig, struct session *session, uint64_t seq);
/** What was told since the last call must be this. */
/** Until the store takes inputs again, if it has failed. */
void rig_wait_for_store(struct rig *rig);
void rig_expect_told(struct rig *rig, const char *what);

/** The session of this name; made if there is none. */
struct session *rig_session(struct rig *rig, const char *id);
uint64_t rig_say(struct session *session, const char *text);
uint64_t rig_think(struct session *session, const char *text);
/** An event of any type; data is JSON. */
uint64_t rig_put(struct session *session, const char *type, const char *data);

/** Copies a data directory into a new one under the same parent; the caller frees its name. */
char *rig_copy_dir(const char *from);
void rig_remove_dir(const char *dir);
/** Fixtures of a test whose state is the name of an empty directory. */
int rig_dir_set_up(void **state);
int rig_dir_tear_down(void **state);

#endif
