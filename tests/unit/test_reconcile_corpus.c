/*
 * Every session/load of the corpus, held against what the same session said live: it adds nothing,
 * whatever pieces it comes in, and with one message taken out of the log it adds just that one.
 */
#include "reconcile_fixture.h"
#include "corpus.h"

struct tally {
	size_t loads;
	size_t replayed;
	size_t removed; /* messages that were taken out of the log, each for one trial */
};

struct recording {
	struct tally *tally;
	const char *name;
	json_t *logs; /* by ACP session: events */
	json_t *updates; /* of the load under way, NULL: none is */
	char loaded[256];
	bool has_attachments; /* a prompt was more than its text, which is all that we ever send */
};

static json_t *log_of(struct recording *r, const char *session)
{
	json_t *events = json_object_get(r->logs, session);
	if (!events) {
		events = json_array();
		json_object_set_new(r->logs, session, events);
	}
	return events;
}

static size_t bare_len(const char *text)
{
	struct bare_text bare = {0};
	bare_text_append(&bare, SAID_MESSAGE, text, strlen(text));
	size_t len = bare.bytes.len;
	bare_text_finish(&bare);
	return len;
}

/** All that was said of one kind, with the texts `from` to `to` left out. */
static char *all_text(const json_t *events, size_t from, size_t to)
{
	struct bare_text all = {0};
	for (size_t i = 0; i < json_array_size(events); i++) {
		const char *text =
			member(json_object_get(json_array_get(events, i), "data"), "markdown");
		if (text && (i < from || i >= to)) {
			bare_text_append(&all, SAID_MESSAGE, text, strlen(text));
		}
	}
	buffer_append_char(&all.bytes, '\0');
	buffer_finish(&all.starts);
	return all.bytes.data;
}

static bool is_message_of(const json_t *event, const char *message_id)
{
	const char *id = member(event, "message_id");
	return strcmp(member(event, "type"), "agent_message") == 0 &&
	       (id ? message_id && strcmp(id, message_id) == 0 : !message_id);
}

/** Without its answer, what was put to a prompt may be another one, and is told. */
static void drop_prompts(json_t *fresh)
{
	for (size_t i = json_array_size(fresh); i > 0; i--) {
		if (strcmp(member(json_array_get(fresh, i - 1), "type"), "user_prompt") == 0) {
			json_array_remove(fresh, i - 1);
		}
	}
}

/**
 * Takes each message in turn out of the log (all that was said from one tool, prompt or other
 * message to the next): the replay adds just that one.
 */
static void try_without_each(struct recording *r, const json_t *events)
{
	size_t count = json_array_size(events);
	for (size_t from = 0; from < count;) {
		const json_t *first = json_array_get(events, from);
		const char *id = member(first, "message_id");
		size_t to = from;
		struct bare_text text = {0};
		while (to < count && is_message_of(json_array_get(events, to), id)) {
			const char *part = member(
				json_object_get(json_array_get(events, to++), "data"), "markdown");
			bare_text_append(&text, SAID_MESSAGE, part, strlen(part));
		}
		char *others = all_text(events, from, to);
		bool is_alone = text.bytes.len >= 16 && !strstr(others, buffer_cstr(&text.bytes));
		free(others);
		json_t *without = json_copy((json_t *)events);
		for (size_t i = from; i < to; i++) {
			json_array_remove(without, from);
		}
		json_t *fresh = replay(without, r->updates, 0, NULL);
		json_t *told =
			replay(json_array_get(events, 0) ? without : NULL, r->updates, 7, NULL);
		if (r->has_attachments) {
			drop_prompts(fresh);
			drop_prompts(told);
		}
		/* A turn that was cut is not in the replay, and nothing is added then. */
		if (is_alone && json_array_size(fresh) > 0) {
			if (json_array_size(fresh) != 1 || json_array_size(told) != 1) {
				fail_msg("%s: instead of %s: %s or %s", r->name,
					buffer_cstr(&text.bytes), json_dumps(fresh, JSON_INDENT(1)),
					json_dumps(told, JSON_INDENT(1)));
			}
			const json_t *data = json_object_get(json_array_get(fresh, 0), "data");
			const char *added = member(data, "text");
			if (bare_len(added ? added : "") != text.bytes.len) {
				fail_msg("%s: instead of %s: %s", r->name, buffer_cstr(&text.bytes),
					json_dumps(fresh, JSON_INDENT(1)));
			}
			r->tally->removed++;
		}
		json_decref(fresh);
		json_decref(told);
		json_decref(without);
		bare_text_finish(&text);
		from = to > from ? to : from + 1;
	}
}

static void end_load(struct recording *r)
{
	if (!r->updates) {
		return;
	}
	const json_t *events = log_of(r, r->loaded);
	for (size_t piece = 0; piece < 64; piece = piece * 2 + 1) {
		bool is_foreign;
		json_t *fresh = replay(events, r->updates, piece, &is_foreign);
		char *text = json_dumps(fresh, JSON_INDENT(1));
		if (json_array_size(fresh) > 0 || is_foreign) {
			fail_msg("%s, in pieces of %zu: %s", r->name, piece, text);
		}
		free(text);
		json_decref(fresh);
	}
	r->tally->loads++;
	r->tally->replayed += json_array_size(r->updates);
	try_without_each(r, events);
	json_decref(r->updates);
	r->updates = NULL;
}

static void see_request(struct recording *r, const json_t *message)
{
	const char *method = member(message, "method");
	const json_t *params = json_object_get(message, "params");
	if (!method || !json_object_get(message, "id")) {
		return;
	}
	end_load(r);
	const char *session = member(params, "sessionId");
	if (strcmp(method, "session/load") == 0 || strcmp(method, "session/resume") == 0) {
		r->updates = json_array();
		snprintf(r->loaded, sizeof(r->loaded), "%s", session);
	} else if (strcmp(method, "session/prompt") == 0) {
		struct buffer text = {0};
		const json_t *blocks = json_object_get(params, "prompt");
		for (size_t i = 0; i < json_array_size(blocks); i++) {
			const char *block = member(json_array_get(blocks, i), "text");
			buffer_append_str(&text, block ? block : "");
			r->has_attachments = r->has_attachments || !block;
		}
		log_prompt(log_of(r, session), buffer_cstr(&text));
		buffer_finish(&text);
	}
}

static void see_update(struct recording *r, const json_t *message)
{
	const json_t *params = json_object_get(message, "params");
	json_t *update = json_object_get(params, "update");
	const char *session = member(params, "sessionId");
	const char *kind = member(update, "sessionUpdate");
	const char *why;
	if (!session || !kind) {
		return;
	}
	if (r->updates && strcmp(session, r->loaded) == 0) {
		/* The state of the session is told in another way (acp_state.c). */
		if (!acp_agent_is_state(kind)) {
			json_array_append(r->updates, update);
		}
	} else {
		acp_update_report(update, &log_ops, log_of(r, session), &why);
	}
}

static void see_line(struct recording *r, json_t *entry)
{
	json_error_t error;
	const char *line = member(entry, "line");
	char *copy = line ? strdup(line) : NULL;
	json_t *message = copy ? json_rpc_parse(copy, strlen(copy), NULL, &error) : NULL;
	const char *dir = member(entry, "dir");
	if (message && strcmp(dir, "c2a") == 0) {
		see_request(r, message);
	} else if (message && strcmp(dir, "a2c") == 0) {
		see_update(r, message);
	}
	json_decref(message);
	free(copy);
}

static void play(void *arg, const char *name, const char *text, size_t len)
{
	struct recording r = {.tally = arg, .name = name, .logs = json_object()};
	const char *end = text + len;
	if (!strstr(name, ".jsonl")) {
		json_decref(r.logs);
		return;
	}
	for (const char *at = text; at < end;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t n = newline ? (size_t)(newline - at) : (size_t)(end - at);
		json_t *entry = json_loadb(at, n, JSON_ALLOW_NUL, NULL);
		see_line(&r, entry);
		json_decref(entry);
		at += n + 1;
	}
	end_load(&r);
	json_decref(r.logs);
}

static void test_corpus_adds_nothing(void **state)
{
	struct tally tally = {0};
	corpus_each("acp", play, &tally);
	print_message("%zu loads of %zu updates; %zu times one message was missing\n", tally.loads,
		tally.replayed, tally.removed);
	assert_true(tally.loads >= 20);
	assert_true(tally.removed >= 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_corpus_adds_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
