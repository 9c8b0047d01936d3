/* Remembers the trace of the request that brought a prompt, until the agent gets the prompt. */
#include "acp_host_internal.h"

#include "holdfast/traceparent.h"

#include <stdlib.h>
#include <string.h>

/* Most prompts remembered; beyond that the oldest are forgotten. */
#define TRACES_MAX 1024

struct agent_trace {
	struct list link; /* acp_host.traces, the oldest first */
	char trace[TRACEPARENT_SIZE];
	char name[]; /* the session's id, a space, and the prompt's id */
};

static void drop(struct acp_host *host, struct agent_trace *trace)
{
	list_remove(&trace->link);
	host->trace_count--;
	free(trace);
}

void agent_traces_record(struct agent_host *base, const struct session *session,
	const char *prompt_id, const char *traceparent)
{
	struct acp_host *host = acp_host_of(base);
	char *name = xprintf("%s %s", session_id(session), prompt_id);
	struct agent_trace *trace = xcalloc(1, sizeof(*trace) + strlen(name) + 1);
	strcpy(trace->name, name);
	strncpy(trace->trace, traceparent, sizeof(trace->trace) - 1);
	free(name);
	if (host->trace_count == TRACES_MAX) {
		drop(host, list_entry(host->traces.next, struct agent_trace, link));
	}
	list_append(&host->traces, &trace->link);
	host->trace_count++;
}

bool agent_traces_remove(struct acp_host *host, const struct session *session,
	const char *prompt_id, char ret[TRACEPARENT_SIZE])
{
	bool found = false;
	if (!host->trace_count || !prompt_id) {
		return false;
	}
	char *name = xprintf("%s %s", session_id(session), prompt_id);
	list_for_each_safe(link, tmp, &host->traces) {
		struct agent_trace *trace = list_entry(link, struct agent_trace, link);
		if (strcmp(trace->name, name) == 0) {
			memcpy(ret, trace->trace, TRACEPARENT_SIZE);
			found = true;
			drop(host, trace);
		}
	}
	free(name);
	return found;
}

void agent_traces_finish(struct acp_host *host)
{
	list_for_each_safe(link, tmp, &host->traces) {
		drop(host, list_entry(link, struct agent_trace, link));
	}
}
