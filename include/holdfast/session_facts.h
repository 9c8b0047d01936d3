/*
 * The facts of a session: what is remembered about it besides its events. The struct is used in two
 * places: the state machine has the facts as of the newest input, and the log those as of its end.
 * The latter are all that remains in memory of an evicted session. The table in session_facts.c
 * says what each fact is called and where it is kept; docs/changing.md says how to add one.
 */
#ifndef HOLDFAST_SESSION_FACTS_H
#define HOLDFAST_SESSION_FACTS_H

#include "holdfast/agent_state.h"
#include "holdfast/pack.h"

#include <jansson.h>

/*
 * The version of snapshots as a whole, including the stream buffer's part. Raise it when anything
 * in a snapshot changes. Older ones, from SNAPSHOT_OLDEST on, must remain readable; that is at
 * least the version before.
 */
#ifndef SNAPSHOT_VERSION /* tests/crash/test_next_version.c has one of its own */
#define SNAPSHOT_VERSION 6
#endif
#define SNAPSHOT_OLDEST 3

/** The kinds of names (struct name_kind), which are kept even if their events are pruned. */
enum log_key_kind {
	/* Derived from the log's events. */
	LOG_KEY_PROMPT = 1, /* user_prompt, by prompt_id */
	LOG_KEY_ANSWER = 2, /* permission_resolved and elicitation_resolved, by request_id */
	/* Given by inputs. */
	LOG_KEY_INPUT = 3, /* an idempotency key */
	LOG_KEY_MESSAGE = 4, /* a message_id */
	LOG_KEY_TOOL_CALL = 5, /* the tool_call_id of a tool_call */
	LOG_KEY_TOOL_RESULT = 6, /* that of a call or update with status completed or failed */
	LOG_KEY_RUN = 7, /* the run_id of a run_start */
	LOG_KEY_REMOVED = 8, /* the prompt_id of a prompt that was removed from the queue */
	/* Given by holdfast repair --forget-keys. */
	LOG_KEY_FORGOTTEN = 9, /* how many of the names above are lost */
};

/** Strings are owned, and may be NULL. */
struct session_facts {
	char *title; /* the title that it was created with */
	char *name; /* the title that a person gave it since; NULL: none, or it was reset */
	bool archived;
	bool pinned;
	char *made_by; /* the sub of the token that created it; NULL: the token had none */
	char *agent; /* the name of its agent; NULL: the default */
	char *cwd; /* its agent's directory; NULL: the agent's default */
	uint64_t turn; /* number of the running turn, or of the last one */
	bool in_turn;
	bool turn_of_prompt; /* a prompt began the turn, so the session's agent works on it */
	bool agent_running;
	uint64_t turn_end_seq;
	uint64_t prompt_seq;
	char *prompt_id;
	char *usage; /* a saved usage total; in a log's facts: the one that it was given last */
	char *run_id; /* of the current run, which alone may append; no event carries it */
	char *last_message_id; /* the message id that was noted as a name last */
	uint64_t input_names; /* the number of names given by inputs */
	char *agent_session_id; /* of the newest agent_started */
	uint64_t agent_session_seq; /* where it began: the prompt that the agent was started for */
	char *agent_title; /* the title that the agent gave the session */
	struct agent_state agent_state;
};

void session_facts_finish(struct session_facts *facts);
/** Sets one of the strings to a copy; `text` may be NULL. */
void session_facts_set(char **fact, const char *text);
/** Copies from the log's facts those that both the state machine and the log have. */
void session_facts_follow(struct session_facts *facts, const struct session_facts *log);
/** Whether session_facts_follow() would change nothing. */
bool session_facts_agree(const struct session_facts *facts, const struct session_facts *log);
/** Appends, or reads, the part of a snapshot that has the facts. */
void session_facts_save(const struct session_facts *facts, struct buffer *out);
void session_facts_load(struct session_facts *facts, unsigned version, struct unpack *in);
/** A string in a snapshot, which may be NULL; the caller frees a loaded one. */
void session_facts_save_text(const char *text, struct buffer *out);
char *session_facts_load_text(struct unpack *in);

/* The functions of struct store_facts; `facts` is a struct session_facts. */
/** Makes the facts of a new session from the data of its RECORD_CREATE. */
void *session_facts_create(const char *data, size_t len);
void session_facts_destroy(void *facts);
/** Updates the facts with the log's next event. */
void session_facts_fold(void *facts, const struct event_view *view);
bool session_facts_needs_data(enum event_type type);
/** Appends the facts as members of metadata.json, each preceded by a comma. */
void session_facts_write(const void *facts, struct buffer *out);
void *session_facts_read(const json_t *json, uint64_t max_seq, const char **ret_why);

#endif
