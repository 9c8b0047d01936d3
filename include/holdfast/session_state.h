/*
 * A session as a deterministic state machine: records in, events and other effects out. Nothing
 * here reads a clock, a file or a random number, and nothing here can reach the store, the log or
 * the observers: times come in with the records, and what is to be done goes out through the ops.
 * So the same records give the same events, always.
 */
#ifndef HOLDFAST_SESSION_STATE_H
#define HOLDFAST_SESSION_STATE_H

#include "holdfast/prompt_queue.h"
#include "holdfast/record.h"
#include "holdfast/requests.h"
#include "holdfast/session_facts.h"
#include "holdfast/stream_buffer.h"
#include "holdfast/usage_total.h"

/** A name that an input gave: it is to be found by it from now on. Borrowed. */
struct session_name {
	enum log_key_kind kind; /* 0: the end of the run, which has no name of its own */
	const char *key;
	size_t len;
	uint64_t seq; /* 0: it has none; of LOG_KEY_PROMPT: it waits in the queue */
	uint64_t nth; /* among the names that are counted: all but those of LOG_KEY_PROMPT and 0 */
	const struct key_sum *sum; /* of LOG_KEY_INPUT, else NULL */
};

/** The one answer of a permission request. Borrowed. */
struct session_answer {
	const char *request_id;
	const char *option_id; /* NULL: the request was cancelled */
	const char *by; /* a signature; "" if nobody gave it */
	uint64_t seq; /* of its permission_resolved */
	int64_t wait_ms; /* how long it was waited for; -1: that is not known, or it was there at once */
};

/**
 * Who gave an answer, in one text: the client_id and, if they have a token of a `sub`, a US (U+001F) and
 * that. The caller frees it.
 */
char *session_signature(const json_t *resolved);
/** The parts of one, which is changed: it ends with the client_id then. "" for no `sub`. */
const char *session_signature_split(char *signature);

/** What comes of an input. All are called inside session_state_apply(). */
struct session_state_ops {
	/**
	 * An event is complete; in seq order without a gap. `is_due`: it is a prompt, and the
	 * session's agent has to be given it.
	 */
	void (*emit)(void *owner, const struct event_view *view, bool is_due);
	/** An input is held behind an open block; session_state_data() is its data. */
	void (*held)(void *owner, uint64_t seq, const struct stream_input *input);
	void (*name)(void *owner, const struct session_name *name);
	void (*answer)(void *owner, const struct session_answer *answer);
	/**
	 * What became of earlier inputs, by LOG_KEY_ANSWER (a request that has its answer) or
	 * LOG_KEY_PROMPT (a prompt that has begun or was removed): whether there is one, and its
	 * seq.
	 */
	bool (*find)(void *owner, enum log_key_kind kind, const char *key, uint64_t *ret_seq);
};

/**
 * To be read by its owner; changed by the functions here alone, but for facts.input_names: the log
 * may have more names than the journal tells of.
 */
struct session_state {
	const struct limits *limits;
	const struct session_state_ops *ops;
	void *owner;
	struct session_facts facts; /* as of the newest input */
	struct stream_buffer *stream;
	struct usage_total *usage;
	char *usage_text; /* what observers are told of it, JSON; NULL: nothing was reported */
	bool usage_is_new; /* the log has not been given it */
	struct prompt_queue *queue; /* prompts that wait for their turn */
	struct list permissions; /* open requests, in seq order */
	struct hash *permissions_by_id; /* the same; NULL while there are none */
	struct list answers; /* struct given_answer, in seq order */
	size_t answer_count;

	/* Of the input that is being applied. */
	int64_t at;
	const json_t *data; /* what was received as its data, read; NULL: not yet, or it is text */
	json_t *read; /* the same, if it was read here */
	const struct input_event *input;
	bool is_due;
	bool is_recovered;
};

/** `limits`, `ops` and `owner` must outlive it; it must not move. */
void session_state_init(struct session_state *state, const struct limits *limits,
	const struct session_state_ops *ops, void *owner);
void session_state_finish(struct session_state *state);
/**
 * Applies a journal record: the one way in which the state changes. `at` is when it came, on the
 * session's clock. `input` is what an input's record was made of; NULL: it is read from the record.
 * *ret_seq is the seq that it got. -EBADMSG if it is no record of ours.
 */
int session_state_apply(struct session_state *state, const struct record *record, int64_t at,
	const struct input_event *input, uint64_t *ret_seq);
/**
 * Whether an input adds nothing: it ends a turn that has ended, or answers what has its answer. By
 * *ret_seq, then.
 */
bool session_state_is_over(
	struct session_state *state, const struct input_event *input, uint64_t *ret_seq);

/** The data of the input that is being applied, read once; an empty object if it is none. */
const json_t *session_state_data(struct session_state *state);

/** Nothing is open, held, asked or waiting. */
bool session_state_is_idle(const struct session_state *state);
/** Whether session_state_follow_log() would make the very same state. */
bool session_state_is_in_log(
	const struct session_state *state, const struct session_facts *log, uint64_t last_seq);
/**
 * The log goes on behind what the journal tells: the state becomes what the log's facts tell.
 * `has_usage`: it has a total that may be the later one of the two.
 */
void session_state_follow_log(struct session_state *state, const struct session_facts *log,
	uint64_t last_seq, bool has_usage);

/** The payload of RECORD_SNAPSHOT: the whole state. */
void session_state_save(const struct session_state *state, struct buffer *out);
/** Replaces the state; -EBADMSG if the bytes are none. */
int session_state_load(struct session_state *state, const char *bytes, size_t len);
/** See snapshot_is_foreign of the store. */
bool session_snapshot_is_foreign(
	const struct record *snapshot, unsigned *ret_has, unsigned *ret_from, unsigned *ret_to);
/** The payload of RECORD_INPUT. */
void session_input_pack(const struct input_event *input, struct buffer *out);
/** The total as it is kept; NULL if there is nothing. The caller frees it. */
char *session_usage_save(const struct session_state *state);

/** Whether a request is open, and has such an option (NULL: it does not matter). */
bool session_state_asks(
	const struct session_state *state, const char *request_id, const char *option_id);
/** The data of an elicitation_request that is open, JSON; NULL: it is none, or not open. Borrowed. */
const char *session_state_elicitation(const struct session_state *state, const char *request_id);
/** The option of an open request that allows, or that rejects, once rather than always; NULL: none. Lent. */
const char *session_state_pick(
	const struct session_state *state, const char *request_id, bool allows);
size_t session_state_count_asked(const struct session_state *state);
/** Calls `visit` for the id of every open request; it may resolve them. */
void session_state_each_asked(const struct session_state *state,
	void (*visit)(void *arg, const char *request_id), void *arg);

/* The names of a log, as the store asks for them. */
#define NAME_KIND_COUNT (LOG_KEY_REMOVED + 1)
extern const struct name_kind session_name_kinds[NAME_KIND_COUNT];
/** Gives the names that an event tells; `all`: also those that its input gave. */
void session_names_of(const struct event_view *view, bool all, visit_name *visit, void *arg);
bool session_names_need_data(enum event_type type);

#endif
