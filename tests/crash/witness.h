/*
 * A witness of what a server promised. It puts inputs into the sessions of a rig as producers
 * would, watches every session as an observer would, and writes down when each input was sent and
 * when it was acknowledged, when each event was shown and what its bytes were, and what the whole
 * state of the session was behind each input. A recovery is held against that.
 */
#ifndef HOLDFAST_TESTS_WITNESS_H
#define HOLDFAST_TESTS_WITNESS_H

#include "power_disk.h"
#include "rig.h"

/** Not yet, or never. Times are changes of the power disk, as power_disk_count() gives them. */
#define NEVER SIZE_MAX

/** What a session was after one of its inputs. */
struct witness_state {
	uint64_t hash; /* of all that is to come back after a restart */
	uint64_t emitted_seq;
	size_t sent;
	size_t acked;
	bool is_refused;
	size_t refused; /* when that was told */
	bool is_in_doubt; /* so it may be there after a restart */
	bool has_key; /* witness_key() */
	uint64_t seq; /* that it got */
};

/** A prompt, which must not be taken twice. */
struct witness_prompt {
	char id[16];
	size_t state; /* by whose number it is acknowledged */
};

/** One life of a session, from its creation to its deletion. */
struct life {
	struct witness *witness;
	char id[16];
	uint64_t epoch;
	int64_t created_at;
	struct witness_state *states; /* the first one is that of the creation */
	size_t state_count;
	size_t delete_sent;
	size_t delete_acked;
	struct witness_prompt *prompts;
	size_t prompt_count;
	/* Its events, as the lines of its log. */
	struct buffer lines;
	uint64_t line_count;
	size_t *shown; /* shown[seq - 1]: when an observer got it */
	uint64_t shown_count;
	/* While it is alive. */
	struct session *session; /* NULL: the server is down, or it is deleted */
	struct observer *observer;
};

struct witness {
	struct rig *rig;
	const struct power_disk *power; /* NULL: all times are 0 */
	struct life **lives;
	size_t life_count;
	size_t inputs; /* how many were sent */
	size_t refused; /* and refused */
	bool takes_back; /* a refused input must leave the session as if it had not been */
	bool may_miss; /* a recovered server may be without sessions that it could not read */
	bool is_unreadable; /* the disk fails: names may not be told */
	bool is_rotten; /* so may be damaged ones, which are in set-aside/ then */
	bool may_end_early; /* the journal's end was cut off: what it alone told is lost */
	/* Looked at as a kill in the middle of a fault leaves it: a timer's flush has no state
	 * here. */
	bool is_killed;
	bool is_helpless; /* the disk let nothing be undone: what was refused may be there */
	size_t certain_from; /* before, nothing was promised to be there after a power cut */
	struct buffer wrong; /* what was broken while the server ran; must stay empty */
};

/** On a rig that is not open. */
void witness_init(struct witness *w, struct rig *rig, const struct power_disk *power);
/** The rig must be closed. */
void witness_finish(struct witness *w);
/** Opens the server, or opens it again, and watches what is there. */
int witness_open(struct witness *w);
/** Stops the server in good order. */
void witness_close(struct witness *w);
/** Kills it when everything has been acknowledged; on a power disk. */
void witness_kill(struct witness *w);

/*
 * Inputs to a session, which is made if there is none. Errors are the session's; then nothing must
 * have changed.
 */
int witness_say(struct witness *w, const char *id, const char *text);
int witness_think(struct witness *w, const char *id, const char *text);
int witness_put(struct witness *w, const char *id, const char *type, const char *data);
int witness_prompt(struct witness *w, const char *id, const char *prompt_id);
/** Gives a prompt that waits another message, or (NULL) takes it out of the queue. */
int witness_change_prompt(
	struct witness *w, const char *id, const char *prompt_id, const char *message);
int witness_delete(struct witness *w, const char *id);
/**
 * A new observer comes to every session and loads it from its beginning: all that was shown must be
 * there.
 */
void witness_reload(struct witness *w);
/** The clock decides: waits until every session with something open has let it out. */
void witness_flush(struct witness *w);
/** Events that need not be kept begin to go. */
void witness_prune(struct witness *w);
/**
 * The end of a tick: a batch starts on its way to the disk, and what comes next is gathered
 * for another one.
 */
void witness_turn(struct witness *w);
/** Runs the loop until everything is on disk. */
void witness_settle(struct witness *w);

/** All that has to come back after a restart, as one number. */
uint64_t witness_hash(struct session *session);

#define WITNESS_KEY 24
/** The key of the input that led to a state; returns the sum of what it stands for. */
uint64_t witness_key(size_t state, char name[WITNESS_KEY]);
/**
 * The journal gives a session back up to one of its inputs, `last`: all keys up to there must be
 * known, each once, and none behind it. Returns what is wrong with the key of *ret_state, or NULL.
 */
const char *witness_check_keys(const struct life *life, size_t cut, size_t last,
	const struct rig *rig, struct session *session, size_t *ret_state);
/** A session's file, or what the engine has in its place. */
void witness_read_file(const struct rig *rig, const char *id, const char *name, struct buffer *out);

/**
 * When what is known changed last, up to a cut: between two cuts with the same moment nothing was
 * sent, acknowledged, refused or shown, and witness_check() finds the same in the same disk.
 */
size_t witness_moment(const struct witness *w, size_t cut);
/**
 * Holds a recovered server against what is known for a cut at `cut`. Returns false and says what is
 * wrong in `why`.
 */
bool witness_check(const struct witness *w, size_t cut, struct rig *recovered, struct buffer *why);
/**
 * Goes on with the recovered server: prompts are known, sessions take inputs, their logs only grow,
 * and all is the same after one more start.
 */
bool witness_goes_on(
	const struct witness *w, size_t cut, struct rig *recovered, struct buffer *why);

/** How many sessions that should be there are not. */
size_t witness_missing(const struct witness *w, const struct rig *recovered);

#endif
