/* A session's whole state as bytes: its first record in every journal segment. */
#include "../session/session_internal.h"

#include "holdfast/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Of all that is in a snapshot, that of the stream buffer and of what it consists of included.
 * Raise it when any of it changes, and read the older ones with what was in them, from
 * SNAPSHOT_OLDEST on: the one before at least.
 */
#ifndef SNAPSHOT_VERSION /* tests/crash/test_next_version.c has one of its own */
#define SNAPSHOT_VERSION 3
#endif
#define SNAPSHOT_OLDEST 3
/* The usage in it has a version of its own, which the older program does not look at before it. */
_Static_assert(USAGE_SAVE_VERSION == 1, "raise SNAPSHOT_VERSION and FOLDER_FORMAT with it");

static void save_text(struct buffer *out, const char *text)
{
	pack_le(out, text != NULL, 1);
	pack_bytes(out, text, text ? strlen(text) : 0);
}

static char *load_text(struct unpack *in)
{
	bool is_set = unpack_le(in, 1) != 0;
	size_t len;
	const char *bytes = unpack_bytes(in, &len);
	return is_set ? xstrndup(bytes, len) : NULL;
}

static void save_usage(const struct session_state *state, struct buffer *out)
{
	char *text = session_usage_save(state);
	save_text(out, text);
	free(text);
}

static void load_usage(struct session *session, struct unpack *in)
{
	char *text = load_text(in);
	session->usage_in_log = false;
	if (!in->failed && session_usage_load(&session->state, text) < 0) {
		in->failed = true;
	}
	free(text);
}

static void save_answers(const struct session_state *state, struct buffer *out)
{
	pack_le(out, state->answer_count, 4);
	list_for_each(link, &state->answers) {
		struct given_answer *answer = list_entry(link, struct given_answer, link);
		pack_le(out, answer->is_carried, 1);
		pack_le(out, answer->seq, 8);
		pack_le(out, answer->subject.low, 8);
		pack_le(out, answer->subject.high, 8);
		save_text(out, answer->tool_call_id);
		save_text(out, answer->option_id);
		save_text(out, answer->by);
	}
}

void session_snapshot_save(const struct session *session, struct buffer *out)
{
	const struct session_state *state = &session->state;
	pack_le(out, SNAPSHOT_VERSION, 1);
	pack_le(out, state->turn, 8);
	pack_le(out, state->in_turn, 1);
	pack_le(out, state->turn_of_prompt, 1);
	pack_le(out, state->agent_running, 1);
	pack_le(out, state->last_turn_end_seq, 8);
	pack_le(out, state->last_prompt_seq, 8);
	save_text(out, state->last_prompt_id);
	save_usage(state, out);
	save_text(out, state->run_id);
	save_text(out, state->last_message_id);
	pack_le(out, state->input_names, 8);
	pack_le(out, prompt_queue_count(state->queue), 4);
	for (size_t i = 0; i < prompt_queue_count(state->queue); i++) {
		const struct queued_prompt *prompt = state->queue->prompts[i];
		save_text(out, prompt->prompt_id);
		pack_bytes(out, prompt->data.data, prompt->data.len);
	}
	uint64_t count = 0;
	list_for_each(link, &state->permissions) {
		count++;
	}
	pack_le(out, count, 4);
	list_for_each(link, &state->permissions) {
		struct permission *permission = list_entry(link, struct permission, link);
		save_text(out, permission->request_id);
		save_text(out, permission->data);
	}
	save_answers(state, out);
	stream_buffer_save(state->stream, out);
}

static void load_queue(struct session *session, struct unpack *in)
{
	struct session_state *state = &session->state;
	for (uint64_t count = unpack_le(in, 4); count && !in->failed; count--) {
		char *prompt_id = load_text(in);
		size_t len;
		const char *bytes = unpack_bytes(in, &len);
		struct queued_prompt *prompt = in->failed ? NULL : queued_prompt_create(bytes, len);
		if (prompt && prompt_id && strcmp(prompt_id, prompt->prompt_id) == 0) {
			session_remember_prompt(session, prompt_id, 0);
			session_queue_append(state, prompt);
		} else {
			queued_prompt_unref(prompt);
			in->failed = true;
		}
		free(prompt_id);
	}
}

static void load_permissions(struct session_state *state, struct unpack *in)
{
	for (uint64_t count = unpack_le(in, 4); count && !in->failed; count--) {
		struct permission *permission = xcalloc(1, sizeof(*permission));
		permission->request_id = load_text(in);
		permission->data = load_text(in);
		if (permission->request_id && permission->data) {
			session_ledger_add_permission(state, permission);
		} else {
			free(permission->request_id);
			free(permission->data);
			free(permission);
			in->failed = true;
		}
	}
}

static void load_answers(struct session_state *state, struct unpack *in)
{
	for (uint64_t count = unpack_le(in, 4); count && !in->failed; count--) {
		struct given_answer *answer = xcalloc(1, sizeof(*answer));
		answer->is_carried = unpack_le(in, 1) != 0;
		answer->seq = unpack_le(in, 8);
		answer->subject.low = unpack_le(in, 8);
		answer->subject.high = unpack_le(in, 8);
		answer->tool_call_id = load_text(in);
		answer->option_id = load_text(in);
		answer->by = load_text(in);
		session_ledger_add_answer(state, answer);
		if (!answer->tool_call_id || !answer->option_id || !answer->by) {
			in->failed = true;
		}
	}
}

bool session_snapshot_is_foreign(
	const struct record *snapshot, unsigned *ret_has, unsigned *ret_from, unsigned *ret_to)
{
	*ret_has = snapshot->data_len ? (unsigned char)snapshot->data[0] : 0;
	*ret_from = SNAPSHOT_OLDEST;
	*ret_to = SNAPSHOT_VERSION;
	return *ret_has < SNAPSHOT_OLDEST || *ret_has > SNAPSHOT_VERSION;
}

int session_snapshot_load(struct session *session, const char *bytes, size_t len)
{
	struct unpack in = {.bytes = bytes, .len = len};
	session_state_finish(&session->state);
	session_state_init(session, 1);
	struct session_state *state = &session->state;
	uint64_t version = unpack_le(&in, 1);
	if (version < SNAPSHOT_OLDEST || version > SNAPSHOT_VERSION) {
		return -EBADMSG;
	}
	state->turn = unpack_le(&in, 8);
	state->in_turn = unpack_le(&in, 1) != 0;
	state->turn_of_prompt = unpack_le(&in, 1) != 0;
	state->agent_running = unpack_le(&in, 1) != 0;
	state->last_turn_end_seq = unpack_le(&in, 8);
	state->last_prompt_seq = unpack_le(&in, 8);
	state->last_prompt_id = load_text(&in);
	load_usage(session, &in);
	state->run_id = load_text(&in);
	state->last_message_id = load_text(&in);
	state->input_names = unpack_le(&in, 8);
	load_queue(session, &in);
	load_permissions(state, &in);
	load_answers(state, &in);
	int r = in.failed ? -EBADMSG : stream_buffer_load(state->stream, &in);
	if (r == 0 && (in.failed || in.len)) {
		r = -EBADMSG;
	}
	/*
	 * Everything emitted before the snapshot must be in the log: nothing else has it any more.
	 */
	uint64_t emitted = stream_buffer_emitted_seq(state->stream);
	return r == 0 && emitted > session_log_last_seq(session->log) ? -EBADMSG : r;
}
