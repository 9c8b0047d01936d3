#include "holdfast/prompt_queue.h"

#include "holdfast/json_text.h"
#include "holdfast/utf8.h"

#include <assert.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* --- prompts --- */

struct prompt_text {
	const char *prompt_id;
	const char *client_id; /* NULL: none */
	const char *sub; /* NULL: none */
	const char *name; /* NULL: none */
	const char *message;
	size_t len;
	const json_t *content; /* NULL: none */
	bool edited;
	bool truncated;
};

static void append_text(struct buffer *out, const struct prompt_text *text)
{
	buffer_append_str(out, "{\"message\":");
	buffer_append_json(out, text->message, text->len);
	buffer_append_member(out, "prompt_id", text->prompt_id);
	if (text->client_id) {
		buffer_append_member(out, "client_id", text->client_id);
	}
	if (text->sub) {
		buffer_append_member(out, "sub", text->sub);
	}
	if (text->name) {
		buffer_append_member(out, "name", text->name);
	}
	if (text->content) {
		buffer_append_str(out, ",\"content\":");
		json_write(out, text->content, NULL);
	}
	buffer_append_str(out, text->edited ? ",\"edited\":true" : "");
	buffer_append_str(out, text->truncated ? ",\"truncated\":true" : "");
	buffer_append_char(out, '}');
}

/** Shortens the message, at a character boundary. */
static void cut(struct prompt_text *text)
{
	text->len = utf8_floor(text->message, text->len, PROMPT_BRIEF_MAX);
	text->truncated = true;
}

/** Strings are borrowed from `json`. Returns false if it is not a prompt. */
static bool read_text(const json_t *json, struct prompt_text *ret)
{
	const json_t *message = json_object_get(json, "message");
	*ret = (struct prompt_text){
		.prompt_id = json_string_value(json_object_get(json, "prompt_id")),
		.client_id = json_string_value(json_object_get(json, "client_id")),
		.sub = json_string_value(json_object_get(json, "sub")),
		.name = json_string_value(json_object_get(json, "name")),
		.message = json_string_value(message),
		.len = json_string_length(message),
		.content = json_object_get(json, "content"),
		.edited = json_is_true(json_object_get(json, "edited")),
	};
	return ret->prompt_id && ret->message;
}

static struct queued_prompt *make_prompt(struct prompt_text text, const char *data, size_t len)
{
	struct queued_prompt *prompt = xcalloc(1, sizeof(*prompt));
	prompt->refs = 1;
	prompt->prompt_id = xstrdup(text.prompt_id);
	prompt->sub = xstrdup(text.sub ? text.sub : "");
	buffer_append(&prompt->data, data, len);
	if (text.len > PROMPT_BRIEF_MAX) {
		cut(&text);
		append_text(&prompt->brief, &text);
	}
	return prompt;
}

struct queued_prompt *queued_prompt_create(const char *data, size_t len)
{
	struct prompt_text text;
	json_t *json = json_read(data, len, 0, NULL, NULL);
	struct queued_prompt *prompt = read_text(json, &text) ? make_prompt(text, data, len) : NULL;
	json_decref(json);
	return prompt;
}

struct queued_prompt *queued_prompt_edit(
	const struct queued_prompt *prompt, const char *message, size_t len)
{
	struct prompt_text text;
	struct buffer data = {0};
	json_t *json = json_read(prompt->data.data, prompt->data.len, 0, NULL, NULL);
	bool is_prompt = read_text(json, &text);
	assert(is_prompt); /* checked by queued_prompt_create() */
	text.message = message;
	text.len = len;
	text.edited = true;
	append_text(&data, &text);
	struct queued_prompt *edited = make_prompt(text, data.data, data.len);
	buffer_finish(&data);
	json_decref(json);
	return edited;
}

struct queued_prompt *queued_prompt_ref(struct queued_prompt *prompt)
{
	prompt->refs++;
	return prompt;
}

void queued_prompt_unref(struct queued_prompt *prompt)
{
	if (!prompt || --prompt->refs) {
		return;
	}
	free(prompt->prompt_id);
	free(prompt->sub);
	buffer_finish(&prompt->data);
	buffer_finish(&prompt->brief);
	free(prompt);
}

/* --- queues --- */

struct prompt_queue *prompt_queue_ref(struct prompt_queue *queue)
{
	if (queue) {
		queue->refs++;
	}
	return queue;
}

void prompt_queue_unref(struct prompt_queue *queue)
{
	if (!queue || --queue->refs) {
		return;
	}
	for (size_t i = 0; i < queue->count; i++) {
		queued_prompt_unref(queue->prompts[i]);
	}
	free(queue);
}

size_t prompt_queue_count(const struct prompt_queue *queue)
{
	return queue ? queue->count : 0;
}

size_t prompt_queue_find(const struct prompt_queue *queue, const char *prompt_id)
{
	size_t i = 0;
	while (i < prompt_queue_count(queue) &&
		strcmp(queue->prompts[i]->prompt_id, prompt_id) != 0) {
		i++;
	}
	return i;
}

struct prompt_queue *prompt_queue_with(
	const struct prompt_queue *queue, size_t at, struct queued_prompt *prompt)
{
	size_t count = prompt_queue_count(queue);
	size_t most = count + 1;
	struct prompt_queue *next =
		xcalloc(1, sizeof(*next) + most * sizeof(struct queued_prompt *));
	next->refs = 1;
	for (size_t i = 0; i < count; i++) {
		if (i != at) {
			next->prompts[next->count++] = queued_prompt_ref(queue->prompts[i]);
		} else if (prompt) {
			next->prompts[next->count++] = prompt;
		}
	}
	if (prompt && at >= count) {
		next->prompts[next->count++] = prompt;
	}
	if (!next->count) {
		prompt_queue_unref(next);
		return NULL;
	}
	return next;
}

/* --- for clients --- */

static const struct buffer *brief_of(const struct queued_prompt *prompt)
{
	return prompt->brief.len ? &prompt->brief : &prompt->data;
}

static void append_entry(struct buffer *out, size_t i, const struct buffer *entry)
{
	buffer_append_str(out, i ? "," : "");
	buffer_append(out, entry->data, entry->len);
}

void prompt_queue_append_brief(struct buffer *out, const struct prompt_queue *queue)
{
	size_t count = prompt_queue_count(queue);
	buffer_append_char(out, '[');
	for (size_t i = 0; i < count && i < PROMPT_QUEUE_SHOWN; i++) {
		append_entry(out, i, brief_of(queue->prompts[i]));
	}
	buffer_append_char(out, ']');
}

void prompt_queue_append_list(struct buffer *out, const struct prompt_queue *queue, size_t max)
{
	size_t left = max;
	buffer_append_str(out, "{\"prompts\":[");
	for (size_t i = 0; i < prompt_queue_count(queue); i++) {
		const struct queued_prompt *prompt = queue->prompts[i];
		const struct buffer *entry =
			prompt->data.len <= left ? &prompt->data : brief_of(prompt);
		append_entry(out, i, entry);
		left -= entry->len < left ? entry->len : left;
	}
	buffer_append_str(out, "]}");
}

void prompt_queue_append_one(struct buffer *out, const struct prompt_queue *queue, size_t at)
{
	buffer_append_str(out, "{\"prompts\":[");
	append_entry(out, 0, &queue->prompts[at]->data);
	buffer_append_str(out, "]}");
}
