/*
 * What agents said, out of the recordings: of a stream all its text, of an ACP session the text of
 * each turn, live and as it was loaded again.
 */
#include "holdfast/json_rpc.h"
#include "corpus.h"
#include "texts.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** A session of one process of a recording, and what it has said in its present turn. */
struct speaker {
	char *key;
	struct buffer said;
};

#define SPEAKERS_MAX 16

struct recording {
	struct texts *texts;
	const char *name;
	size_t turns;
	struct speaker speakers[SPEAKERS_MAX];
	size_t count;
};

static void end_turn(struct recording *r, struct speaker *speaker)
{
	struct buffer name = {0};
	if (speaker->said.len) {
		buffer_printf(&name, "%s %zu", r->name, ++r->turns);
		texts_add(r->texts, TEXT_CORPUS, buffer_cstr(&name), speaker->said.data,
			speaker->said.len);
	}
	buffer_finish(&name);
	buffer_clear(&speaker->said);
}

static struct speaker *find_speaker(struct recording *r, json_int_t process, const char *session)
{
	struct buffer key = {0};
	size_t i = 0;
	buffer_printf(&key, "%lld %s", (long long)process, session);
	while (i < r->count && strcmp(r->speakers[i].key, buffer_cstr(&key)) != 0) {
		i++;
	}
	if (i < r->count) {
		buffer_finish(&key);
		return &r->speakers[i];
	}
	assert(r->count < SPEAKERS_MAX);
	r->count++;
	r->speakers[i] = (struct speaker){.key = key.data};
	return &r->speakers[i];
}

static void read_message(struct recording *r, json_int_t process, const json_t *message)
{
	const char *method = json_string_value(json_object_get(message, "method"));
	const json_t *params = json_object_get(message, "params");
	const char *session = json_string_value(json_object_get(params, "sessionId"));
	const json_t *update = json_object_get(params, "update");
	const char *kind = json_string_value(json_object_get(update, "sessionUpdate"));
	struct speaker *speaker = method && session ? find_speaker(r, process, session) : NULL;
	if (!speaker) {
		return;
	}
	if (strcmp(method, "session/prompt") == 0 ||
		(kind && strcmp(kind, "user_message_chunk") == 0)) {
		end_turn(r, speaker);
	} else if (kind && strcmp(kind, "agent_message_chunk") == 0) {
		const json_t *text = json_object_get(json_object_get(update, "content"), "text");
		buffer_append(&speaker->said, json_string_value(text), json_string_length(text));
	}
}

static void read_acp_line(struct recording *r, const char *line, size_t len)
{
	json_t *record = json_loadb(line, len, 0, NULL);
	json_t *inner = json_object_get(record, "line");
	char *text = json_is_string(inner) ? xstrdup(json_string_value(inner)) : NULL;
	json_error_t error;
	json_t *message = text ? json_rpc_parse(text, strlen(text), NULL, &error) : NULL;
	read_message(r, json_integer_value(json_object_get(record, "proc")), message);
	json_decref(message);
	free(text);
	json_decref(record);
}

static void read_stream_line(struct recording *r, const char *line, size_t len)
{
	json_t *record = json_loadb(line, len, 0, NULL);
	const char *type = json_string_value(json_object_get(record, "type"));
	if (type && strcmp(type, "agent_message_chunk") == 0) {
		const json_t *text = json_object_get(json_object_get(record, "data"), "text");
		buffer_append(&find_speaker(r, 0, "")->said, json_string_value(text),
			json_string_length(text));
	}
	json_decref(record);
}

static void read_recording(struct texts *texts, const char *name, const char *text, size_t len,
	void (*read_line)(struct recording *r, const char *line, size_t len))
{
	struct recording r = {.texts = texts, .name = name};
	const char *end = text + len;
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const char *stop = newline ? newline : end;
		read_line(&r, text, (size_t)(stop - text));
		text = newline ? newline + 1 : end;
	}
	for (size_t i = 0; i < r.count; i++) {
		end_turn(&r, &r.speakers[i]);
		free(r.speakers[i].key);
		buffer_finish(&r.speakers[i].said);
	}
}

static bool is_recording(const char *name)
{
	const char *dot = strrchr(name, '.');
	return dot && strcmp(dot, ".jsonl") == 0;
}

static void visit_acp(void *arg, const char *name, const char *text, size_t len)
{
	char path[256];
	snprintf(path, sizeof(path), "acp/%s", name);
	if (is_recording(name)) {
		read_recording(arg, path, text, len, read_acp_line);
	}
}

static void visit_stream(void *arg, const char *name, const char *text, size_t len)
{
	char path[256];
	snprintf(path, sizeof(path), "streams/%s", name);
	if (is_recording(name)) {
		read_recording(arg, path, text, len, read_stream_line);
	}
}

static void visit_markdown(void *arg, const char *name, const char *text, size_t len)
{
	char path[256];
	snprintf(path, sizeof(path), "markdown/%s", name);
	texts_add(arg, TEXT_CORPUS, path, text, len);
}

void texts_add_corpus(struct texts *texts)
{
	corpus_each("markdown", visit_markdown, texts);
	corpus_each("streams", visit_stream, texts);
	corpus_each("acp", visit_acp, texts);
}
