#include "agent_inputs.h"

#include "holdfast/blobs.h"
#include "holdfast/buffer.h"
#include "holdfast/content_blobs.h"
#include "holdfast/diag.h"
#include "holdfast/intake.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum input_kind { TEXT, THOUGHT, EVENT, RECOVERED, WITHDRAWAL };

/* The lsn of an input that the session has not accepted, or that was rolled back. */
#define NOT_GIVEN INT64_MAX

struct agent_input {
	struct list link;
	enum input_kind kind;
	int64_t lsn; /* the input is stored once this lsn is durable */
	char *name; /* the message id (NULL: none), the event's type, or the request's id */
	char *text;
	size_t len;
	json_t *data; /* of an event */
	char *message_id; /* of a recovered event; NULL: none */
	struct list blobs; /* struct content_blob, to be written before the input is passed on */
	struct blob_upload *upload; /* the upload of the first blob; NULL: none */
	/* Blobs that could not be written, each with an error code; NULL: none. */
	struct hash *lost;
	struct agent_inputs *inputs; /* the owner */
};

static void input_free(struct agent_input *input)
{
	list_remove(&input->link);
	blob_upload_end(input->upload);
	hash_destroy(input->lost);
	list_for_each_safe(link, tmp, &input->blobs) {
		content_blob_free(list_entry(link, struct content_blob, link));
	}
	free(input->name);
	free(input->text);
	json_decref(input->data);
	free(input->message_id);
	free(input);
}

/** Passes an input to the session. */
static int hand_over(struct agent_inputs *inputs, const struct agent_input *input)
{
	struct session *session = inputs->session;
	switch (input->kind) {
	case TEXT:
	case THOUGHT:
		return intake_text(
			session, input->kind == THOUGHT, input->text, input->len, input->name);
	case EVENT:
		return intake_event(session, input->name, input->data, input->text);
	case RECOVERED:
		return intake_recovered(
			session, input->name, input->data, input->text, input->message_id);
	default:
		return intake_cancel_permission(session, input->name);
	}
}

/**
 * Passes an input to the session. Returns -EAGAIN if it has to be repeated: the store accepts no
 * inputs, or the session is being deleted, which may fail.
 */
static int give(struct agent_inputs *inputs, struct agent_input *input)
{
	input->lsn = NOT_GIVEN;
	int r = hand_over(inputs, input);
	if (r == -EIO || r == -ENOENT) {
		return -EAGAIN;
	}
	/* An input that changed nothing is as durable as what precedes it. */
	input->lsn = session_last_lsn(inputs->session);
	return r;
}

static bool is_stored(const struct agent_inputs *inputs, const struct agent_input *input)
{
	return input->lsn != NOT_GIVEN && session_is_stored(inputs->session, input->lsn);
}

/** Drops the inputs that are stored: the first ones, since they are stored in order. */
static void drop_stored(struct agent_inputs *inputs)
{
	while (!list_empty(&inputs->kept)) {
		struct agent_input *first = list_entry(inputs->kept.next, struct agent_input, link);
		if (!is_stored(inputs, first)) {
			return;
		}
		input_free(first);
	}
}

static void handle_stored(struct durable_wait *wait, int status);

/**
 * Waits until the inputs passed on so far are durable, unless there are none or a wait is already
 * pending.
 */
static void await(struct agent_inputs *inputs)
{
	const struct agent_input *first =
		list_empty(&inputs->kept) ? NULL
					  : list_entry(inputs->kept.next, struct agent_input, link);
	if (!inputs->is_waiting && first && first->lsn != NOT_GIVEN) {
		inputs->is_waiting = true;
		inputs->wait.done = handle_stored;
		session_wait_durable(inputs->session, &inputs->wait);
	}
}

static void handle_stored(struct durable_wait *wait, int status)
{
	struct agent_inputs *inputs =
		(struct agent_inputs *)((char *)wait - offsetof(struct agent_inputs, wait));
	inputs->is_waiting = false;
	drop_stored(inputs);
	if (status < 0) {
		inputs->failed = true;
		/* Once the store recovers, the lsns of lost inputs are used for others. */
		list_for_each(link, &inputs->kept) {
			list_entry(link, struct agent_input, link)->lsn = NOT_GIVEN;
		}
	}
	await(inputs);
}

/** Passes on kept inputs that have not been passed on, in order, as far as possible. */
static void give_kept(struct agent_inputs *inputs)
{
	inputs->is_held = false;
	list_for_each_safe(link, tmp, &inputs->kept) {
		struct agent_input *input = list_entry(link, struct agent_input, link);
		bool was_in_turn = session_is_prompting(inputs->session);
		if (input->lsn != NOT_GIVEN) {
			continue;
		}
		if (!list_empty(&input->blobs)) {
			inputs->is_held = true;
			break;
		}
		int r = give(inputs, input);
		if (r == -EAGAIN) {
			inputs->failed = true;
			break;
		}
		inputs->begins_turn = inputs->begins_turn ||
				      (!was_in_turn && session_is_prompting(inputs->session));
		if (r < 0) {
			input_free(input); /* refused: what it refers to is over */
		}
	}
	drop_stored(inputs);
	await(inputs);
}

/* --- images and files --- */

/** The first blob was written, or could not be (`why`, an error code). */
static void end_blob(struct agent_input *input, enum error_code why)
{
	struct content_blob *blob = list_entry(input->blobs.next, struct content_blob, link);
	blob_upload_end(input->upload);
	input->upload = NULL;
	if (why) {
		input->lost = input->lost ? input->lost : hash_create();
		hash_put(input->lost, blob->name, strlen(blob->name), (void *)error_code_text(why));
	}
	content_blob_free(blob);
}

static void write_next(struct agent_input *input);

static void handle_written(void *arg, int status)
{
	struct agent_input *input = arg;
	struct agent_inputs *inputs = input->inputs;
	end_blob(input, status < 0 ? ERROR_storage_failed : ERROR_NONE);
	write_next(input);
	if (!list_empty(&input->blobs)) {
		return;
	}
	if (!inputs->failed) {
		give_kept(inputs);
	}
	if (inputs->go_on) {
		inputs->go_on(inputs);
	}
}

/** Begins to write the first blob. If a limit forbids that, ends it and returns false. */
static bool begin_blob(struct agent_input *input)
{
	struct content_blob *blob = list_entry(input->blobs.next, struct content_blob, link);
	struct buffer bytes = {.data = blob->bytes, .len = blob->len, .cap = blob->len};
	blob->bytes = NULL;
	input->upload = blob_upload_begin(
		session_channel(input->inputs->session)->log, blob->hide, handle_written, input);
	enum limit limit = blob_upload_write(input->upload, &bytes, true);
	if (limit != LIMIT_NONE) {
		metrics_limit(session_channel(input->inputs->session)->metrics, limit);
		buffer_finish(&bytes);
		end_blob(input, limit_code(limit));
	}
	return limit == LIMIT_NONE;
}

static void log_lost(void *value, void *arg)
{
	const struct agent_input *input = arg;
	const char *why = value;
	diag(DIAG_WARN, "session %s: an image or file of the agent is left out: %s",
		session_id(input->inputs->session), why);
}

/** Leaves out the blobs that could not be written; all at once, because there can be thousands. */
static void omit_lost(struct agent_input *input)
{
	hash_each(input->lost, log_lost, input);
	content_omit(input->data, input->lost);
	free(input->text);
	input->text = json_text(input->data, NULL);
	hash_destroy(input->lost);
	input->lost = NULL;
}

/** Begins to write the next blob that no limit forbids, if there is one. */
static void write_next(struct agent_input *input)
{
	while (!list_empty(&input->blobs) && !begin_blob(input)) {
	}
	if (list_empty(&input->blobs) && input->lost) {
		omit_lost(input);
	}
}

/** Takes over an input: passes it on, and keeps it until it is stored. */
static int take(struct agent_inputs *inputs, struct agent_input *input)
{
	list_init(&input->link);
	input->lsn = NOT_GIVEN;
	input->inputs = inputs;
	write_next(input);
	inputs->is_held = inputs->is_held || !list_empty(&input->blobs);
	if (inputs->is_held) {
		list_append(&inputs->kept, &input->link);
		return 0;
	}
	int r = inputs->failed ? -EAGAIN : give(inputs, input);
	if ((r < 0 && r != -EAGAIN) || is_stored(inputs, input)) {
		input_free(input);
		return r;
	}
	inputs->failed = r < 0;
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
	inputs->is_waiting = false;
	list_for_each_safe(link, tmp, &inputs->kept) {
		input_free(list_entry(link, struct agent_input, link));
	}
}

static struct agent_input *input_new(enum input_kind kind, const char *name)
{
	struct agent_input *input = xcalloc(1, sizeof(*input));
	input->kind = kind;
	list_init(&input->blobs);
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

static void take_data(struct agent_inputs *inputs, struct agent_input *input, const json_t *data)
{
	struct session_table *table = session_table_of(inputs->session);
	json_t *moved = content_move(input->name, data, &input->blobs);
	input->text = json_text(moved, session_table_numbers(table));
	input->data = json_deep_copy(moved);
	json_decref(moved);
}

int agent_inputs_event(struct agent_inputs *inputs, const char *type, const json_t *data)
{
	struct agent_input *input = input_new(EVENT, type);
	take_data(inputs, input, data);
	return take(inputs, input);
}

int agent_inputs_recovered(
	struct agent_inputs *inputs, const char *type, const json_t *data, const char *message_id)
{
	struct agent_input *input = input_new(RECOVERED, type);
	take_data(inputs, input, data);
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
	give_kept(inputs);
}
