/*
 * The facts of a session: what lasts of it besides its events. One struct for two places: the state
 * machine has the facts as of the newest input, and the log those as of its end, which is all that
 * there is of a session at rest. The table in session_facts.c says of each fact what it is called
 * and where it is kept; docs/architecture.md says how one is added.
 */
#ifndef HOLDFAST_SESSION_FACTS_H
#define HOLDFAST_SESSION_FACTS_H

#include "holdfast/agent_state.h"
#include "holdfast/pack.h"

#include <jansson.h>

/*
 * Of all that is in a snapshot, that of the stream buffer and of what it consists of included.
 * Raise it when any of it changes, and read the older ones with what was in them, from
 * SNAPSHOT_OLDEST on: the one before at least.
 */
#ifndef SNAPSHOT_VERSION /* tests/crash/test_next_version.c has one of its own */
#define SNAPSHOT_VERSION 5
#endif
#define SNAPSHOT_OLDEST 3

/** What is found by name for as long as the session lives, pruned or not. */
enum log_key_kind {
	/* The log's events tell these. */
	LOG_KEY_PROMPT = 1, /* user_prompt, by prompt_id */
	LOG_KEY_ANSWER = 2, /* permission_resolved, by request_id */
	/* Inputs gave these. */
	LOG_KEY_INPUT = 3, /* an idempotency key */
	LOG_KEY_MESSAGE = 4, /* a message_id */
	LOG_KEY_TOOL_CALL = 5, /* the tool_call_id of a tool_call */
	LOG_KEY_TOOL_RESULT = 6, /* that of an update which is completed or failed */
	LOG_KEY_RUN = 7, /* the run_id of a run_start */
	LOG_KEY_REMOVED = 8, /* the prompt_id of a prompt that was taken out of the queue */
};

/** Strings are owned; NULL: there is none. */
struct session_facts {
	char *title; /* that it was made with */
	char *name; /* that a person gave it since; NULL: none, or it was taken back */
	bool archived;
	bool pinned;
	char *made_by; /* the sub of the token that made it; NULL: it had none */
	char *agent; /* the name of its agent; NULL: the default */
	char *cwd; /* its agent's directory; NULL: the agent's default */
	uint64_t turn; /* number of the running or the last one */
	bool in_turn;
	bool turn_of_prompt; /* a prompt began it, so the session's agent is at work on it */
	bool agent_running;
	uint64_t turn_end_seq;
	uint64_t prompt_seq;
	char *prompt_id;
	char *usage; /* a saved total; of a log: the one that it was given last */
	char *run_id; /* of the producer's run that alone may append. No event tells it */
	char *last_message_id; /* the name that was noted last */
	uint64_t input_names; /* how many names inputs have given */
	char *agent_session_id; /* what the newest agent_started says */
	uint64_t agent_session_seq; /* where it began: the prompt that the agent was started for */
	char *agent_title; /* what the agent calls the session */
	struct agent_state agent_state;
};

void session_facts_finish(struct session_facts *facts);
/** Sets one of the strings to a copy; `text` may be NULL. */
void session_facts_set(char **fact, const char *text);
/** `facts` become what those of the log's end tell. */
void session_facts_follow(struct session_facts *facts, const struct session_facts *log);
/** Whether session_facts_follow() would change nothing. */
bool session_facts_agree(const struct session_facts *facts, const struct session_facts *log);
/** As the head of a snapshot. */
void session_facts_save(const struct session_facts *facts, struct buffer *out);
void session_facts_load(struct session_facts *facts, unsigned version, struct unpack *in);
/** A string that may be NULL, in a snapshot. */
void session_facts_save_text(const char *text, struct buffer *out);
char *session_facts_load_text(struct unpack *in);

/* Those of a log, as the store asks for them: `facts` is a struct session_facts. */
/** Those of a session that this RECORD_CREATE makes. */
void *session_facts_create(const char *data, size_t len);
void session_facts_destroy(void *facts);
/** Takes the log's next event. */
void session_facts_fold(void *facts, const struct event_view *view);
bool session_facts_needs_data(enum event_type type);
/** As members of metadata.json, each with a comma in front. */
void session_facts_write(const void *facts, struct buffer *out);
void *session_facts_read(const json_t *json, uint64_t max_seq, const char **ret_why);

#endif
