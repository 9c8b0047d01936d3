/* The open tool calls of a turn. */
#include "agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct demo_open_call *find_call(struct demo_session *session, const struct demo_call *call)
{
	for (size_t i = 0; i < DEMO_OPEN_CALLS_MAX; i++) {
		if (session->turn.calls[i].call == call) {
			return &session->turn.calls[i];
		}
	}
	return NULL;
}

const char *demo_calls_find(struct demo_session *session, const struct demo_call *call)
{
	struct demo_open_call *open = find_call(session, call);
	return open ? open->id : NULL;
}

void demo_calls_begin(
	struct demo_session *session, const struct demo_call *call, const char *status)
{
	struct demo_open_call *open = find_call(session, NULL);
	if (!open) {
		/* The scripts are part of the program: one that leaves calls open is a bug. */
		abort();
	}
	open->call = call;
	snprintf(open->id, sizeof(open->id), "call_%u", ++session->call_count);
	demo_turn_update(
		session, "tool_call", demo_call_object(call, open->id, session->cwd, status));
}

void demo_calls_forget(struct demo_session *session, const struct demo_call *call)
{
	struct demo_open_call *open = find_call(session, call);
	if (open) {
		open->call = NULL;
	}
}

void demo_calls_update(struct demo_session *session, const struct demo_step *step)
{
	const char *id = demo_calls_find(session, step->call);
	if (!id) {
		return;
	}
	bool has_ended = strcmp(step->text, "in_progress") != 0;
	if (has_ended) {
		demo_turn_update(session, "tool_call_update",
			demo_call_end(step->call, id, session->cwd, step->text));
		demo_calls_forget(session, step->call);
		return;
	}
	size_t len = step->extra ? strlen(step->extra) : 0;
	demo_turn_update(
		session, "tool_call_update", demo_call_update(id, step->text, step->extra, len));
}

void demo_calls_fail_open(struct demo_session *session)
{
	for (size_t i = 0; i < DEMO_OPEN_CALLS_MAX; i++) {
		struct demo_open_call *open = &session->turn.calls[i];
		if (open->call) {
			demo_turn_update(session, "tool_call_update",
				demo_call_update(open->id, "failed", NULL, 0));
			open->call = NULL;
		}
	}
}
