/* Shared by the files of the agent host. */
#ifndef HOLDFAST_ACP_HOST_INTERNAL_H
#define HOLDFAST_ACP_HOST_INTERNAL_H

#include "holdfast/acp_host.h"
#include "agent_dirs.h"
#include "holdfast/traceparent.h"

#include "agent_history.h"
#include "agent_inputs.h"
#include "prompt_content.h"

#include "agents/acp/acp_agent.h"
#include "holdfast/spawner.h"

/** One session's agent. Lives from a prompt until the agent has stopped and nothing is pending. */
struct hosted {
	struct list link;
	struct acp_host *host;
	struct session *session; /* NULL once it is deleted */
	char *left_id; /* id of the session, once the agent is ending; NULL before */
	struct acp_agent *agent;
	struct agent_inputs inputs;
	struct agent_history history;
	bool has_started; /* the agent has begun a session */
	bool is_at_work; /* it was given a prompt, whose turn has not ended */
	/* a turn cancelled before its prompt was given to the agent; 0: none */
	uint64_t cancelled_turn;
	bool is_over; /* its child has stopped: it can be released if nothing is pending */
	/* reads the images and files of a prompt; NULL: nothing to read */
	struct prompt_content *reading;
	bool late_turn; /* the agent began the running turn by speaking outside of a prompt */
};

/** The agent_host of this wing: agents that speak ACP. */
struct acp_host {
	struct agent_host base;
	uv_loop_t *loop;
	const struct limits *limits;
	const struct agent_list *list;
	struct agent_offer *offers; /* one of each agent in the list; each owns its `fault` */
	char ***envs; /* the environment of each agent in the list */
	struct agent_dirs *dirs; /* NULL: not needed so far */
	char *private_dir;
	char *cgroup; /* NULL: none */
	struct sandbox sandbox; /* `tmp` NULL: none */
	struct box_rules box; /* of each agent */
	struct spawner *spawner; /* NULL: no agents are configured */
	struct list agents;
	struct list leaving; /* struct hosted, whose agents are ending */
	size_t count; /* including those in `leaving` */
	struct list traces; /* struct agent_trace: prompts that agents have not got yet */
	size_t trace_count;
	bool has_over; /* at least one of them has `is_over` */
	bool paused;
	const struct server_life *life;
	void (*done)(void *arg); /* NULL until agent_host_ops.stop() */
	void *done_arg;
};

/** `host` must be one of acp_host_create(). */
static inline struct acp_host *acp_host_of(const struct agent_host *host)
{
	return (struct acp_host *)host;
}

/* agent_traces.c */
/** agent_host_ops.record_trace */
void agent_traces_record(struct agent_host *base, const struct session *session,
	const char *prompt_id, const char *traceparent);
/** Removes the traceparent of a prompt, and gives it in `ret`. Returns false if it has none. */
bool agent_traces_remove(struct acp_host *host, const struct session *session,
	const char *prompt_id, char ret[TRACEPARENT_SIZE]);
void agent_traces_finish(struct acp_host *host);

/* agent_prompts.c */
/** agent_host_ops.prompt */
void hosted_prompt(struct agent_host *base, struct session *session, const char *message,
	size_t len, const json_t *content);
/** agent_host_ops.accepts */
bool hosted_accepts(const struct agent_host *base, struct session *session, const char *type);
/**
 * acp_agent_ops.quiet: ends a turn that the agent began outside of a prompt. Otherwise it would never
 * end, and the next prompt would wait forever.
 */
void hosted_quiet(void *owner);
/** acp_agent_ops.prompt_waits */
bool hosted_prompt_waits(void *owner);

/* hosted.c */
/** The session's agent, which is created if need be. */
struct hosted *hosted_of(struct acp_host *host, struct session *session);
/**
 * Reports that the agent has stopped. `detail`: for people, may be NULL; `errors`: the last lines of
 * its stderr, may be empty.
 */
void hosted_append_stopped(
	struct hosted *hosted, const char *reason, const char *detail, const char *errors);
/** agent_inputs.go_on: inputs that waited for a file or for the store may have been passed on. */
void hosted_go_on(struct agent_inputs *inputs);
/** Ends the turn; `owner` is a struct hosted. */
void hosted_end_turn(void *owner, const char *stop_reason, const char *message);

/* acp_host.c */
/** agent_host_ops.has_room */
bool acp_host_has_room(const struct agent_host *base, const struct session *session);

#endif
