/* What the files of the host of agents share. */
#ifndef HOLDFAST_AGENT_HOST_INTERNAL_H
#define HOLDFAST_AGENT_HOST_INTERNAL_H

#include "holdfast/agent_host.h"
#include "holdfast/traceparent.h"

#include "agent_history.h"
#include "agent_inputs.h"
#include "prompt_content.h"

#include "holdfast/acp_agent.h"

/**
 * One session's agent. Lives from a prompt until it has stopped and nothing of it is left to do.
 */
struct hosted {
	struct list link;
	struct agent_host *host;
	struct session *session; /* NULL once it is deleted */
	char *left_id; /* of that, once the agent is on its way out; NULL before */
	struct acp_agent *agent;
	struct agent_inputs inputs;
	struct agent_history history;
	bool has_started; /* it has answered */
	bool is_at_work; /* it was given a prompt, and has not ended its turn */
	uint64_t cancelled_turn; /* before its prompt was given; 0: none */
	bool is_over; /* its child has stopped: if nothing else holds it, it may go */
	struct prompt_content *reading; /* the images and files of a prompt; NULL: none */
	bool late_turn; /* the running turn was begun by what the agent said outside of a prompt */
};

struct agent_host {
	uv_loop_t *loop;
	const struct limits *limits;
	const struct agent_list *list;
	char ***envs; /* of each agent of the list */
	char **faults; /* the same; see agent_host_fault() */
	struct agent_dirs *dirs; /* NULL: nobody has asked */
	char *private_dir;
	struct spawner *spawner;
	struct box_rules box;
	struct list agents;
	struct list leaving; /* those that are on their way out */
	size_t count; /* with those */
	struct list traces; /* struct agent_trace, of prompts that agents have not got yet */
	size_t trace_count;
	bool has_over; /* some of them are over */
	bool paused;
	bool closing;
	void (*done)(void *arg);
	void *done_arg;
};

/* agent_traces.c */
/** The traceparent of a prompt, which is forgotten; false: it has none. */
bool agent_traces_take(struct agent_host *host, const struct session *session,
	const char *prompt_id, char ret[TRACEPARENT_SIZE]);
void agent_traces_finish(struct agent_host *host);

/* agent_host.c */
/** The session's agent, which is made if there is none. */
struct hosted *hosted_of(struct agent_host *host, struct session *session);
/** Its turn is over; `owner` is a struct hosted. */
void hosted_end_turn(void *owner, const char *stop_reason, const char *message);

#endif
