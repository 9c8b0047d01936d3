/* Idempotency keys, as the witness gives them: every input has one, named for its state. */
#include "point.h"
#include "core/session/session_internal.h"
#include "witness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

uint64_t witness_key(size_t state, char name[WITNESS_KEY])
{
	snprintf(name, WITNESS_KEY, "k%zu", state);
	return 0x9e3779b97f4a7c15u * (state + 1);
}

/** What the session knows of the key of a state: 1, 0, a negative errno, or 2: of another input. */
static int find(const struct life *life, size_t state, struct session *session)
{
	char name[WITNESS_KEY];
	struct log_key key;
	uint64_t sum = witness_key(state, name);
	int r = session_find_name(session, LOG_KEY_INPUT, name, &key);
	bool same = r > 0 && key.sum.value == sum && key.seq == life->states[state].seq;
	return r > 0 && !same ? 2 : r;
}

/** How often the line of a key stands in the file. */
static size_t count_lines(const struct buffer *file, size_t state)
{
	char name[WITNESS_KEY];
	char text[WITNESS_KEY + 16];
	size_t count = 0;
	witness_key(state, name);
	size_t len = (size_t)snprintf(text, sizeof(text), "\"key\":\"%s\",\"sum\"", name);
	const char *end = file->data + file->len;
	for (const char *at = file->data; at < end; at++) {
		at = memmem(at, (size_t)(end - at), text, len);
		if (!at) {
			break;
		}
		count++;
	}
	return count;
}

/**
 * Before its refusal was told, an input was on its way like any other; one that was refused in
 * doubt may be there.
 */
static bool was_taken_back(const struct life *life, size_t state, size_t cut)
{
	const struct witness_state *input = &life->states[state];
	return input->is_refused && !input->is_in_doubt && cut > input->refused &&
	       !life->witness->is_helpless;
}

static const char *check_key(
	const struct life *life, size_t cut, size_t state, size_t last, int found)
{
	const struct witness_state *input = &life->states[state];
	if (found < 0) {
		return life->witness->is_unreadable ? NULL : "cannot be looked up";
	}
	if (found == 2) {
		return "is known for another input";
	}
	if (!found && state <= last && !input->is_refused) {
		return "is forgotten";
	}
	if (found && was_taken_back(life, state, cut)) {
		return "is known, and its input was refused";
	}
	return found && state > last && !life->witness->is_helpless
		       ? "is known, and its input is not there"
		       : NULL;
}

const char *witness_check_keys(const struct life *life, size_t cut, size_t last,
	const struct rig *rig, struct session *session, size_t *ret_state)
{
	struct buffer file = {0};
	const char *wrong = NULL;
	witness_read_file(rig, life->id, "keys.jsonl", &file);
	for (size_t i = 0; i < life->state_count && !wrong; i++) {
		if (life->states[i].has_key) {
			*ret_state = i;
			wrong = check_key(life, cut, i, last, find(life, i, session));
			wrong = !wrong && count_lines(&file, i) > 1 ? "is there twice" : wrong;
		}
	}
	buffer_finish(&file);
	return wrong;
}
