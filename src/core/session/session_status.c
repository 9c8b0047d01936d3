/*
 * The status that observers see: that of the state machine as of the last durable record. The state
 * machine itself is ahead of that, so each change waits until its record is durable.
 */
#include "session_internal.h"

#include <stdlib.h>
#include <string.h>

/* Most bytes of a request_id in the list of sessions and in push messages; it may have a megabyte. */
#define WAITING_FOR_MAX 256

struct pending_state {
	struct pending pending;
	struct session_status status;
	char *usage; /* owns status.usage */
	char *question; /* owns status.waiting_for */
	struct prompt_queue *queue; /* owns status.queue */
};

static bool is_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool status_equals(const struct session_status *a, const struct session_status *b)
{
	return a->is_prompting == b->is_prompting && a->is_running == b->is_running &&
	       a->queue == b->queue && a->questions == b->questions &&
	       strcmp(a->status, b->status) == 0 && is_same_text(a->waiting_for, b->waiting_for) &&
	       is_same_text(a->usage, b->usage);
}

/** The status of the state machine now; texts and queue are borrowed. */
static struct session_status status_now(const struct session_state *state)
{
	const char *word = state->facts.in_turn ? "running" : "idle";
	const char *question = session_state_newest_asked(state);
	return (struct session_status){
		.is_prompting = state->facts.in_turn,
		.is_running = state->facts.agent_running,
		.queue_length = prompt_queue_count(state->queue),
		.queue = state->queue,
		.status = question ? "waiting" : word,
		.questions = session_state_count_asked(state),
		.waiting_for = question && strlen(question) <= WAITING_FOR_MAX ? question : NULL,
		.usage = state->usage_text,
	};
}

/** Shows a status to observers; takes over the texts and `queue`, which it points at. */
static void show(struct session *session, const struct session_status *status, char *usage,
	char *question, struct prompt_queue *queue)
{
	free(session->shown_usage);
	session->shown_usage = usage;
	free(session->shown_question);
	session->shown_question = question;
	prompt_queue_unref(session->shown_queue);
	session->shown_queue = queue;
	struct session_status shown = *status;
	shown.usage = usage;
	shown.waiting_for = question;
	channel_set_status(&session->channel, &shown);
}

static void free_pending(struct pending_state *pending)
{
	free(pending->usage);
	free(pending->question);
	prompt_queue_unref(pending->queue);
	free(pending);
}

void session_status_note(struct session *session, int64_t lsn)
{
	struct session_status now = status_now(&session->state);
	const struct session_status *newest = &session->channel.status;
	if (!list_empty(&session->pending_states)) {
		newest = &list_entry(
			session->pending_states.prev, struct pending_state, pending.link)
				  ->status;
	}
	if (status_equals(&now, newest)) {
		return;
	}
	struct pending_state *pending = xcalloc(1, sizeof(*pending));
	pending->pending.lsn = lsn;
	pending->usage = now.usage ? xstrdup(now.usage) : NULL;
	pending->question = now.waiting_for ? xstrdup(now.waiting_for) : NULL;
	pending->queue = prompt_queue_ref(session->state.queue);
	pending->status = now;
	pending->status.usage = pending->usage;
	pending->status.waiting_for = pending->question;
	list_append(&session->pending_states, &pending->pending.link);
}

bool session_status_commit(struct session *session, uint64_t lsn)
{
	bool changed = false;
	struct pending_state *pending;
	while ((pending = session_take_pending(&session->pending_states, lsn))) {
		show(session, &pending->status, pending->usage, pending->question, pending->queue);
		free(pending);
		changed = true;
	}
	return changed;
}

void session_status_show(struct session *session)
{
	struct session_status now = status_now(&session->state);
	show(session, &now, now.usage ? xstrdup(now.usage) : NULL,
		now.waiting_for ? xstrdup(now.waiting_for) : NULL,
		prompt_queue_ref(session->state.queue));
}

void session_status_drop(struct session *session)
{
	struct pending_state *pending;
	while ((pending = session_take_pending(&session->pending_states, UINT64_MAX))) {
		free_pending(pending);
	}
}

/* --- over all sessions, for metrics --- */

size_t session_table_count_permissions(const struct session_table *table)
{
	size_t count = 0;
	/* A session with an open request is never evicted. */
	list_for_each(link, &table->live) {
		count += session_state_count_asked(
			&list_entry(link, struct session, live_link)->state);
	}
	return count;
}

size_t session_table_count_prompts(const struct session_table *table)
{
	size_t count = 0;
	list_for_each(link, &table->live) {
		count += session_queue_length(list_entry(link, struct session, live_link));
	}
	return count;
}

size_t session_table_count_behind(const struct session_table *table)
{
	size_t count = 0;
	list_for_each(link, &table->live) {
		count +=
			channel_count_behind(&list_entry(link, struct session, live_link)->channel);
	}
	return count;
}
