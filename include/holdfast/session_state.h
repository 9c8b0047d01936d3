/*
 * A session as a deterministic state machine: records in, events and other effects out. Nothing
 * here reads a clock, a file or a random number, and nothing here can reach the store, the log or
 * the observers: times come in with the records, effects go out through struct session_state_ops.
 * So the same records always give the same events.
 */
#ifndef HOLDFAST_SESSION_STATE_H
#define HOLDFAST_SESSION_STATE_H

#include "holdfast/prompt_queue.h"
#include "holdfast/record.h"
#include "holdfast/requests.h"
#include "holdfast/session_facts.h"
#include "holdfast/stream_buffer.h"
#include "holdfast/usage_total.h"

/** A name that an input gives; from now on it can be looked up. Borrowed. */
struct session_name {
	enum log_key_kind kind; /* 0: not a name, but the end of the current run */
	const char *key;
	size_t len;
	uint64_t seq; /* of the input, 0 if it has none; for LOG_KEY_PROMPT, 0: it is queued */
	uint64_t nth; /* its number among all names except those of LOG_KEY_PROMPT and kind 0 */
	const struct key_sum *sum; /* of LOG_KEY_INPUT, else NULL */
};

/** The answer to a permission request. Borrowed. */
struct session_answer {
	const char *request_id;
	const char *option_id; /* NULL: the request was cancelled */
	const char *by; /* a signature; "" if nobody gave the answer */
	uint64_t seq; /* of its permission_resolved */
	int64_t wait_ms; /* from the request to the answer; -1: unknown, or answered at once */
};

/**
 * The signature of an answer: the client_id and, if the token has a `sub`, U+001F and the `sub`.
 * `resolved` is the data of the event. The caller frees the result.
 */
char *session_signature(const json_t *resolved);
/** Cuts a signature, in place, down to the client_id and returns its `sub`, "" if it has none. */
const char *session_signature_split(char *signature);

/**
 * The effects of a record. Called inside session_state_apply(); name() also when a snapshot is
 * loaded, find() also by the functions that ask and follow.
 */
struct session_state_ops {
	/**
	 * An event is complete. They come in seq order without a gap. `is_due`: it is a prompt for
	 * the session's agent.
	 */
	void (*emit)(void *owner, const struct event_view *view, bool is_due);
	/** An input is held behind an open block; session_state_data() is its data. */
	void (*held)(void *owner, uint64_t seq, const struct stream_input *input);
	void (*name)(void *owner, const struct session_name *name);
	void (*answer)(void *owner, const struct session_answer *answer);
	/**
	 * Looks up the outcome of an earlier input: for LOG_KEY_ANSWER, whether a request has been
	 * resolved; for LOG_KEY_PROMPT, whether a prompt has begun or was removed. Sets *ret_seq to
	 * the seq of the answer or prompt.
	 */
	bool (*find)(void *owner, enum log_key_kind kind, const char *key, uint64_t *ret_seq);
};

/**
 * The owner may read it. Only the functions here change it, except facts.input_names: the log may
 * have more names than the journal has records of.
 */
struct session_state {
	const struct limits *limits;
	const struct session_state_ops *ops;
	void *owner;
	struct session_facts facts; /* as of the newest input */
	struct stream_buffer *stream;
	struct usage_total *usage;
	char *usage_text; /* the usage that observers see, JSON; NULL: nothing was reported */
	bool usage_is_new; /* the log's facts do not have this usage yet */
	struct prompt_queue *queue; /* prompts that wait for their turn; NULL: none */
	struct list permissions; /* open requests, in seq order */
	struct hash *permissions_by_id; /* the same, by request id; NULL while there are none */
	struct list answers; /* struct given_answer, in seq order */
	size_t answer_count;

	/* The input that is being applied. */
	int64_t at; /* when it came, on the session's clock */
	const json_t *data; /* its data as JSON; NULL: not parsed yet, or plain text */
	json_t *read; /* the same, if it was parsed here and must be freed */
	const struct input_event *input;
	bool is_due;
	bool is_recovered; /* it comes from an agent's history: RECORD_RECOVERED */
};

/** `limits`, `ops` and `owner` must outlive the state, which must not move in memory. */
void session_state_init(struct session_state *state, const struct limits *limits,
	const struct session_state_ops *ops, void *owner);
void session_state_finish(struct session_state *state);
/**
 * Applies a journal record; nothing else changes the state. `at` is when it came, on the session's
 * clock. `input` is the input that an input record was made from; NULL: it is parsed from the
 * record. *ret_seq is the seq that the input got, 0 if none. Returns 0, or -EBADMSG if the record
 * is malformed.
 */
int session_state_apply(struct session_state *state, const struct record *record, int64_t at,
	const struct input_event *input, uint64_t *ret_seq);
/**
 * Whether an input adds nothing, because it is a turn_end outside a turn or answers a request that
 * is not open. Then *ret_seq is the seq of the earlier turn_end or answer, 0 if that is unknown.
 */
bool session_state_is_over(
	struct session_state *state, const struct input_event *input, uint64_t *ret_seq);

/** The data of the input being applied, parsed once; an empty object if it is not an object. */
const json_t *session_state_data(struct session_state *state);

/** Whether nothing is open, held, asked or queued, and no turn is running. */
bool session_state_is_idle(const struct session_state *state);
/** Whether session_state_follow_log() would change nothing, so that the log's facts suffice. */
bool session_state_is_in_log(
	const struct session_state *state, const struct session_facts *log, uint64_t last_seq);
/**
 * Makes the state agree with the log's facts, as of the event `last_seq`: where the journal has no
 * records of the session, or ends before the log. `has_usage`: the state has a usage total, which
 * may be later than the log's.
 */
void session_state_follow_log(struct session_state *state, const struct session_facts *log,
	uint64_t last_seq, bool has_usage);

/** Appends the whole state: the payload of RECORD_SNAPSHOT. */
void session_state_save(const struct session_state *state, struct buffer *out);
/** Replaces the state; -EBADMSG if the bytes are not a snapshot that this program reads. */
int session_state_load(struct session_state *state, const char *bytes, size_t len);
/** See snapshot_is_foreign of the store. */
bool session_snapshot_is_foreign(
	const struct record *snapshot, unsigned *ret_has, unsigned *ret_from, unsigned *ret_to);
/** Appends the payload of RECORD_INPUT. */
void session_input_pack(const struct input_event *input, struct buffer *out);
/** The usage total as JSON, to be kept; NULL if nothing was reported. The caller frees it. */
char *session_usage_save(const struct session_state *state);

/** Whether a request is open, and (unless NULL) offers this option. */
bool session_state_asks(
	const struct session_state *state, const char *request_id, const char *option_id);
/** The data (JSON) of an open elicitation_request, or NULL. Borrowed. */
const char *session_state_elicitation(const struct session_state *state, const char *request_id);
/**
 * The id of the option of an open request that allows (or rejects), preferably once rather than
 * always; NULL if there is none. Borrowed.
 */
const char *session_state_pick(
	const struct session_state *state, const char *request_id, bool allows);
size_t session_state_count_asked(const struct session_state *state);
/** The id of the open request that was asked last, or NULL. Borrowed until the next record. */
const char *session_state_newest_asked(const struct session_state *state);
/** Calls `visit` for the id of every open request; it may resolve them. */
void session_state_each_asked(const struct session_state *state,
	void (*visit)(void *arg, const char *request_id), void *arg);

/* The names of a log: members of struct store_facts. */
#define NAME_KIND_COUNT (LOG_KEY_FORGOTTEN + 1)
extern const struct name_kind session_name_kinds[NAME_KIND_COUNT];
/** Visits the names that an event carries; `all`: also those that its input gave. */
void session_names_of(const struct event_view *view, bool all, visit_name *visit, void *arg);
bool session_names_need_data(enum event_type type);

#endif
