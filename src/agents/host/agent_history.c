#include "agent_history.h"

#include "holdfast/buffer.h"
#include "holdfast/json_text.h"

#include <stdlib.h>
#include <string.h>

/* Only the newest events of a longer history are read: starting an agent must not take minutes. */
#define EVENTS_MAX  100000
#define PAGE_EVENTS 1000

/** Whether an event is compared with the replay, or belongs to the agent's state. */
static bool is_of_history(const struct event_view *view)
{
	switch (view->type) {
	case EVENT_USER_PROMPT:
	case EVENT_AGENT_MESSAGE:
	case EVENT_AGENT_THOUGHT:
	case EVENT_TOOL_CALL:
	case EVENT_TOOL_CALL_UPDATE:
	case EVENT_PERMISSION_REQUEST:
	case EVENT_TURN_END:
	case EVENT_PLAN:
	case EVENT_CUSTOM:
		return true;
	default:
		return false;
	}
}

static void give_event(struct agent_history *history, const struct event *event)
{
	struct event_view view;
	event_get_view(event, &view);
	if (!is_of_history(&view)) {
		return;
	}
	char *type = xstrndup(view.type_name, view.type_len);
	char *message_id = view.message_id ? xstrndup(view.message_id, view.message_id_len) : NULL;
	json_t *data = json_read(view.data, view.data_len, 0, NULL, NULL);
	if (data) {
		acp_agent_log_event(history->agent, type, data, message_id);
	}
	json_decref(data);
	free(message_id);
	free(type);
}

static void read_on(struct agent_history *history);

static void give_page(struct agent_history *history, struct event **events, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		give_event(history, events[i]);
		history->next = events[i]->seq + 1;
		event_unref(events[i]);
	}
}

static void handle_read(void *arg, int status, struct event **events, size_t count)
{
	struct agent_history *history = arg;
	history->read = NULL;
	give_page(history, events, count);
	if (status < 0 || !count) {
		acp_agent_log_failed(history->agent);
	} else {
		read_on(history);
	}
}

static struct log_page next_page(const struct agent_history *history)
{
	uint64_t to = history->next + PAGE_EVENTS - 1;
	return (struct log_page){.from = history->next,
		.to = to < history->end ? to : history->end,
		.max_bytes = history->page_size};
}

/** Whether events are left to be passed on; if so, they are `next` to `end`. */
static bool has_more(struct agent_history *history)
{
	if (history->next > history->end && history->other_at < history->other_count) {
		history->next = history->end = history->others[history->other_at++];
	}
	return history->next <= history->end;
}

static void read_on(struct agent_history *history)
{
	struct event *hot[PAGE_EVENTS];
	while (has_more(history)) {
		struct log_page page = next_page(history);
		size_t count = session_log_get_hot(history->log, &page, hot);
		if (!count) {
			history->read = session_log_read(history->log, &page, handle_read, history);
			if (!history->read) {
				acp_agent_log_failed(history->agent);
			}
			return;
		}
		give_page(history, hot, count);
	}
	acp_agent_log_end(history->agent, history->is_cut);
}

/**
 * The last event of the history. The turn that is running does not belong to it: the agent was
 * started for its prompt.
 */
static uint64_t end_of_history(const struct session_log *log)
{
	const struct session_facts *facts = session_facts(log);
	bool has_prompt = facts->in_turn && facts->prompt_seq > facts->turn_end_seq;
	return has_prompt ? facts->prompt_seq - 1 : session_log_last_seq(log);
}

void agent_history_give(struct agent_history *history, struct session_log *log, uint64_t from,
	size_t page_size, struct acp_agent *agent)
{
	agent_history_stop(history);
	uint64_t first = session_log_first_seq(log);
	uint64_t end = end_of_history(log);
	uint64_t next = from > first ? from : first;
	if (end >= EVENTS_MAX && next < end - EVENTS_MAX + 1) {
		next = end - EVENTS_MAX + 1;
	}
	*history = (struct agent_history){.log = log,
		.agent = agent,
		.page_size = page_size,
		.next = next,
		.end = end,
		.is_cut = next > from};
	read_on(history);
}

static int compare_seqs(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a;
	uint64_t right = *(const uint64_t *)b;
	return left < right ? -1 : left > right;
}

void agent_history_give_state(struct agent_history *history, struct session_log *log,
	size_t page_size, struct acp_agent *agent)
{
	agent_history_stop(history);
	*history = (struct agent_history){
		.log = log, .agent = agent, .page_size = page_size, .next = 1};
	const struct agent_state *state = &session_facts(log)->agent_state;
	for (size_t i = 0; i < AGENT_STATE_COUNT; i++) {
		if (state->seqs[i] && state->seqs[i] >= session_log_first_seq(log)) {
			history->others[history->other_count++] = state->seqs[i];
		}
	}
	qsort(history->others, history->other_count, sizeof(*history->others), compare_seqs);
	read_on(history);
}

void agent_history_stop(struct agent_history *history)
{
	if (history->read) {
		log_read_cancel(history->read);
		history->read = NULL;
	}
}
