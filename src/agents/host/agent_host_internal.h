/* Shared by the files of the agent host. */
#ifndef HOLDFAST_AGENT_HOST_INTERNAL_H
#define HOLDFAST_AGENT_HOST_INTERNAL_H

#include "holdfast/agent_host.h"
#include "holdfast/traceparent.h"

#include "agent_history.h"
#include "agent_inputs.h"
#include "prompt_content.h"

#include "agents/acp/acp_agent.h"

/** One session's agent. Lives from a prompt until the agent has stopped and nothing is pending. */
struct hosted {
	struct list link;
	struct agent_host *host;
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

struct agent_host {
	uv_loop_t *loop;
	const struct limits *limits;
	const struct agent_list *list;
	char ***envs; /* the environment of each agent in the list */
	char **faults; /* for each agent in the list; see agent_host_fault() */
	struct agent_dirs *dirs; /* NULL: not needed so far */
	char *private_dir;
	struct spawner *spawner;
	struct box_rules box;
	struct list agents;
	struct list leaving; /* struct hosted, whose agents are ending */
	size_t count; /* including those in `leaving` */
	struct list traces; /* struct agent_trace: prompts that agents have not got yet */
	size_t trace_count;
	bool has_over; /* at least one of them has `is_over` */
	bool paused;
	const struct server_life *life;
	void (*done)(void *arg); /* NULL until agent_host_destroy() */
	void *done_arg;
};

/* agent_traces.c */
/** Takes out the traceparent of a prompt; returns false if it has none. */
bool agent_traces_take(struct agent_host *host, const struct session *session,
	const char *prompt_id, char ret[TRACEPARENT_SIZE]);
void agent_traces_finish(struct agent_host *host);

/* agent_prompts.c */
/**
 * acp_agent_ops.quiet: ends a turn that the agent began outside of a prompt. Otherwise it would never
 * end, and the next prompt would wait forever.
 */
void hosted_quiet(void *owner);
/** acp_agent_ops.prompt_waits */
bool hosted_prompt_waits(void *owner);

/* agent_host.c */
/** The session's agent, which is created if need be. */
struct hosted *hosted_of(struct agent_host *host, struct session *session);
/** Ends the turn; `owner` is a struct hosted. */
void hosted_end_turn(void *owner, const char *stop_reason, const char *message);

#endif
