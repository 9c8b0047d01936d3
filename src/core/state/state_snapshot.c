/* Snapshots: a session's whole state as bytes, its first record in every journal segment. */
#include "state_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* An older program checks the version of the snapshot, but not that of the usage inside it. */
_Static_assert(USAGE_SAVE_VERSION == 1, "raise SNAPSHOT_VERSION and FOLDER_FORMAT with it");

static void save_answers(const struct session_state *state, struct buffer *out)
{
	pack_le(out, state->answer_count, 4);
	list_for_each(link, &state->answers) {
		struct given_answer *answer = list_entry(link, struct given_answer, link);
		pack_le(out, answer->is_carried, 1);
		pack_le(out, answer->seq, 8);
		pack_le(out, answer->subject.low, 8);
		pack_le(out, answer->subject.high, 8);
		session_facts_save_text(answer->tool_call_id, out);
		session_facts_save_text(answer->option_id, out);
		session_facts_save_text(answer->by, out);
	}
}

void session_state_save(const struct session_state *state, struct buffer *out)
{
	struct session_facts facts = state->facts;
	facts.usage = session_usage_save(state);
	pack_le(out, SNAPSHOT_VERSION, 1);
	session_facts_save(&facts, out);
	free(facts.usage);
	pack_le(out, prompt_queue_count(state->queue), 4);
	for (size_t i = 0; i < prompt_queue_count(state->queue); i++) {
		const struct queued_prompt *prompt = state->queue->prompts[i];
		session_facts_save_text(prompt->prompt_id, out);
		pack_bytes(out, prompt->data.data, prompt->data.len);
	}
	pack_le(out, session_state_count_asked(state), 4);
	list_for_each(link, &state->permissions) {
		struct permission *permission = list_entry(link, struct permission, link);
		session_facts_save_text(permission->request_id, out);
		session_facts_save_text(permission->data, out);
	}
	save_answers(state, out);
	stream_buffer_save(state->stream, out);
}

static void load_queue(struct session_state *state, struct unpack *in)
{
	for (uint64_t count = unpack_le(in, 4); count && !in->failed; count--) {
		char *prompt_id = session_facts_load_text(in);
		size_t len;
		const char *bytes = unpack_bytes(in, &len);
		struct queued_prompt *prompt = in->failed ? NULL : queued_prompt_create(bytes, len);
		if (prompt && prompt_id && strcmp(prompt_id, prompt->prompt_id) == 0) {
			session_names_note_prompt(state, prompt_id, 0);
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
		char *request_id = session_facts_load_text(in);
		char *data = session_facts_load_text(in);
		in->failed = !session_ledger_add_permission(state, request_id, data) || in->failed;
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
		answer->tool_call_id = session_facts_load_text(in);
		answer->option_id = session_facts_load_text(in);
		answer->by = session_facts_load_text(in);
		session_ledger_add_answer(state, answer);
		if (!answer->tool_call_id || !answer->option_id || !answer->by) {
			in->failed = true;
		}
	}
}

static enum stream_format stream_format_of(uint64_t version)
{
	return version < 4   ? STREAM_FORMAT_WAITS
	       : version < 6 ? STREAM_FORMAT_ENDS
			     : STREAM_FORMAT_NOW;
}

bool session_snapshot_is_foreign(
	const struct record *snapshot, unsigned *ret_has, unsigned *ret_from, unsigned *ret_to)
{
	*ret_has = snapshot->data_len ? (unsigned char)snapshot->data[0] : 0;
	*ret_from = SNAPSHOT_OLDEST;
	*ret_to = SNAPSHOT_VERSION;
	return *ret_has < SNAPSHOT_OLDEST || *ret_has > SNAPSHOT_VERSION;
}

int session_state_load(struct session_state *state, const char *bytes, size_t len)
{
	struct unpack in = {.bytes = bytes, .len = len};
	session_state_finish(state);
	session_state_init(state, state->limits, state->ops, state->owner);
	uint64_t version = unpack_le(&in, 1);
	if (version < SNAPSHOT_OLDEST || version > SNAPSHOT_VERSION) {
		return -EBADMSG;
	}
	session_facts_load(&state->facts, (unsigned)version, &in);
	if (!in.failed && session_usage_load(state, state->facts.usage) < 0) {
		in.failed = true;
	}
	session_facts_set(&state->facts.usage, NULL);
	state->usage_is_new = true;
	load_queue(state, &in);
	load_permissions(state, &in);
	load_answers(state, &in);
	int r = in.failed ? -EBADMSG
			  : stream_buffer_load(state->stream, &in, stream_format_of(version));
	return r == 0 && (in.failed || in.len) ? -EBADMSG : r;
}
