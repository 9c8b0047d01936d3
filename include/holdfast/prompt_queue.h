/*
 * Prompts that wait for their turn. Both the prompts and the queues made of them are values: they
 * are shared by reference count and never change, so what observers are told can be an older queue
 * than the session's without a copy of its texts. Pure.
 */
#ifndef HOLDFAST_PROMPT_QUEUE_H
#define HOLDFAST_PROMPT_QUEUE_H

#include "holdfast/buffer.h"

#include <stddef.h>

/** Bytes of a message that the list of waiting prompts shows. */
#define PROMPT_BRIEF_MAX 300
/** Prompts that `state` names; queue_length counts all. */
#define PROMPT_QUEUE_SHOWN 100

struct queued_prompt {
	unsigned refs;
	char *prompt_id;
	char *sub; /* whose it is; "" if that was not said */
	struct buffer data; /* the JSON of its user_prompt */
	struct buffer brief; /* the same with its message cut; empty: it is short enough */
};

/** Takes the JSON of user_prompt's data; NULL if it has no prompt_id or no message. */
struct queued_prompt *queued_prompt_create(const char *data, size_t len);
/** The same prompt with another message, marked `edited`. */
struct queued_prompt *queued_prompt_edit(
	const struct queued_prompt *prompt, const char *message, size_t len);
struct queued_prompt *queued_prompt_ref(struct queued_prompt *prompt);
/** Accepts NULL. */
void queued_prompt_unref(struct queued_prompt *prompt);

/** NULL is the empty queue; every function here takes it. */
struct prompt_queue {
	unsigned refs;
	size_t count;
	struct queued_prompt *prompts[];
};

struct prompt_queue *prompt_queue_ref(struct prompt_queue *queue);
void prompt_queue_unref(struct prompt_queue *queue);
size_t prompt_queue_count(const struct prompt_queue *queue);
/** The place of the prompt with this id; the queue's length if it is not there. */
size_t prompt_queue_find(const struct prompt_queue *queue, const char *prompt_id);
/**
 * A queue that has `prompt` (takes the reference) at the place `at`, instead of what was there or
 * as its last; without what was there if `prompt` is NULL.
 */
struct prompt_queue *prompt_queue_with(
	const struct prompt_queue *queue, size_t at, struct queued_prompt *prompt);

/** `[…]`: the first of them, their messages cut; for `state`. */
void prompt_queue_append_brief(struct buffer *out, const struct prompt_queue *queue);
/** `{"prompts":[…]}`: all of them, whole as far as that has about `max` bytes, then cut. */
void prompt_queue_append_list(struct buffer *out, const struct prompt_queue *queue, size_t max);
/** The same with the one at the place `at` alone, whole. */
void prompt_queue_append_one(struct buffer *out, const struct prompt_queue *queue, size_t at);

#endif
