/*
 * Prompts that wait for their turn. Prompts and queues are both immutable values, shared by
 * reference count. So observers can be told of an older queue than the session's without copying
 * texts. Pure.
 */
#ifndef HOLDFAST_PROMPT_QUEUE_H
#define HOLDFAST_PROMPT_QUEUE_H

#include "holdfast/buffer.h"

#include <stddef.h>

/** Most bytes of a message in the brief list of waiting prompts. */
#define PROMPT_BRIEF_MAX 300
/** Most prompts in the `state` frame; queue_length counts all. */
#define PROMPT_QUEUE_SHOWN 100

struct queued_prompt {
	unsigned refs;
	char *prompt_id;
	char *sub; /* the author's sub; "" if unknown */
	struct buffer data; /* data of its user_prompt, JSON */
	struct buffer brief; /* likewise with a shortened message; empty: not needed */
};

/**
 * Creates a prompt from the JSON of a user_prompt's data (copied). Returns NULL if it lacks a
 * prompt_id or message.
 */
struct queued_prompt *queued_prompt_create(const char *data, size_t len);
/** Returns a copy of the prompt with another message, marked `edited`. */
struct queued_prompt *queued_prompt_edit(
	const struct queued_prompt *prompt, const char *message, size_t len);
struct queued_prompt *queued_prompt_ref(struct queued_prompt *prompt);
/** Accepts NULL. */
void queued_prompt_unref(struct queued_prompt *prompt);

/** NULL is the empty queue; all functions below accept it. */
struct prompt_queue {
	unsigned refs;
	size_t count;
	struct queued_prompt *prompts[];
};

struct prompt_queue *prompt_queue_ref(struct prompt_queue *queue);
void prompt_queue_unref(struct prompt_queue *queue);
size_t prompt_queue_count(const struct prompt_queue *queue);
/** Returns the index of the prompt with this id, or the queue's length. */
size_t prompt_queue_find(const struct prompt_queue *queue, const char *prompt_id);
/**
 * Returns a new queue with `prompt` (whose reference it takes) at index `at`, replacing the prompt
 * there, or appended if `at` is not below the length. If `prompt` is NULL, the prompt at `at` is
 * removed. The old queue is unchanged.
 */
struct prompt_queue *prompt_queue_with(
	const struct prompt_queue *queue, size_t at, struct queued_prompt *prompt);

/** Appends `[…]`: the first PROMPT_QUEUE_SHOWN prompts, with shortened messages; for `state`. */
void prompt_queue_append_brief(struct buffer *out, const struct prompt_queue *queue);
/**
 * Appends `{"prompts":[…]}`: all prompts, with whole messages while these fit in about `max` bytes
 * in total, then shortened ones.
 */
void prompt_queue_append_list(struct buffer *out, const struct prompt_queue *queue, size_t max);
/** The same with only the prompt at index `at`, whole. */
void prompt_queue_append_one(struct buffer *out, const struct prompt_queue *queue, size_t at);

#endif
