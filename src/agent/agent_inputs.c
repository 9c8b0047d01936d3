#include "agent_inputs.h"

#include "holdfast/buffer.h"
#include "holdfast/intake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum input_kind { TEXT, THOUGHT, EVENT, RECOVERED, WITHDRAWAL };

struct agent_input {
	struct list link;
	enum input_kind kind;
	char *name; /* the message id (NULL: none), the event's type, or the request's id */
	char *text;
	size_t len;
	json_t *data; /* of an event */
	char *message_id; /* of what is recovered; NULL: none */
};

static void input_free(struct agent_input *input)
{
	list_remove(&input->link);
	free(input->name);
	free(input->text);
	json_decref(input->data);
	free(input->message_id);
	free(input);
}

/** Gives an input to the session. */
static int give(struct agent_inputs *inputs, const struct agent_input *input)
{
	struct session *session = inputs->session;
	switch (input->kind) {
	case TEXT:
	case THOUGHT:
		return intake_text(
			session, input->kind == THOUGHT, input->text, input->len, input->name);
	case EVENT:
		return intake_event(session, input->name, input->data);
	case RECOVERED:
		return intake_recovered(session, input->name, input->data, input->message_id);
	default:
		return intake_cancel_permission(session, input->name);
	}
}

static void handle_stored(struct durable_wait *wait, int status);

/** Waits for what is kept, unless something else is waited for already. */
static void await(struct agent_inputs *inputs)
{
	if (inputs->waited || inputs->failed || list_empty(&inputs->kept)) {
		return;
	}
	inputs->waited = list_entry(inputs->kept.prev, struct agent_input, link);
	inputs->wait.done = handle_stored;
	session_wait_durable(inputs->session, &inputs->wait);
}

static void handle_stored(struct durable_wait *wait, int status)
{
	struct agent_inputs *inputs =
		(struct agent_inputs *)((char *)wait - offsetof(struct agent_inputs, wait));
	struct agent_input *last = inputs->waited;
	inputs->waited = NULL;
	inputs->failed = status < 0;
	while (status == 0 && last) {
		struct agent_input *first = list_entry(inputs->kept.next, struct agent_input, link);
		last = first == last ? NULL : last;
		input_free(first);
	}
	await(inputs);
}

/** Takes over an input: gives it on, and keeps it until it is stored. */
static int take(struct agent_inputs *inputs, struct agent_input *input)
{
	list_init(&input->link);
	int r = inputs->failed ? -EIO : give(inputs, input);
	if (r < 0 && r != -EIO) {
		input_free(input);
		return r;
	}
	inputs->failed = inputs->failed || r < 0;
	list_append(&inputs->kept, &input->link);
	await(inputs);
	return 0;
}

void agent_inputs_init(struct agent_inputs *inputs, struct session *session)
{
	*inputs = (struct agent_inputs){.session = session};
	list_init(&inputs->kept);
}

void agent_inputs_finish(struct agent_inputs *inputs)
{
	durable_wait_cancel(&inputs->wait);
	inputs->waited = NULL;
	list_for_each_safe(link, tmp, &inputs->kept) {
		input_free(list_entry(link, struct agent_input, link));
	}
}

static struct agent_input *input_new(enum input_kind kind, const char *name)
{
	struct agent_input *input = xcalloc(1, sizeof(*input));
	input->kind = kind;
	input->name = name ? xstrdup(name) : NULL;
	return input;
}

int agent_inputs_text(struct agent_inputs *inputs, bool thought, const char *text, size_t len,
	const char *message_id)
{
	struct agent_input *input = input_new(thought ? THOUGHT : TEXT, message_id);
	input->text = xmalloc(len + 1);
	memcpy(input->text, text, len);
	input->text[len] = '\0';
	input->len = len;
	return take(inputs, input);
}

int agent_inputs_event(struct agent_inputs *inputs, const char *type, const json_t *data)
{
	struct agent_input *input = input_new(EVENT, type);
	input->data = json_deep_copy(data);
	return take(inputs, input);
}

int agent_inputs_recovered(
	struct agent_inputs *inputs, const char *type, const json_t *data, const char *message_id)
{
	struct agent_input *input = input_new(RECOVERED, type);
	input->data = json_deep_copy(data);
	input->message_id = message_id ? xstrdup(message_id) : NULL;
	return take(inputs, input);
}

int agent_inputs_withdraw(struct agent_inputs *inputs, const char *request_id)
{
	return take(inputs, input_new(WITHDRAWAL, request_id));
}

void agent_inputs_retry(struct agent_inputs *inputs)
{
	if (!inputs->failed) {
		return;
	}
	inputs->failed = false;
	list_for_each_safe(link, tmp, &inputs->kept) {
		struct agent_input *input = list_entry(link, struct agent_input, link);
		int r = inputs->failed ? 0 : give(inputs, input);
		if (r == -EIO) {
			inputs->failed = true;
		} else if (r < 0) {
			input_free(input); /* what it was about is over */
		}
	}
	await(inputs);
}
