/*
 * Converts the images and files of a prompt into ACP content blocks for the agent. Their blobs are
 * opened and read on the thread pool.
 */
#ifndef HOLDFAST_PROMPT_CONTENT_H
#define HOLDFAST_PROMPT_CONTENT_H

#include "holdfast/store.h"

#include <jansson.h>

struct prompt_content;
/** `blocks` belongs to the receiver; NULL, with the reason in `why`, if a blob cannot be read. */
typedef void prompt_content_read(void *arg, json_t *blocks, const char *why);

/**
 * Begins reading. `content` is a validated list of blocks, and `log` belongs to its session. `done`
 * is called once, later, unless it is cancelled.
 */
struct prompt_content *prompt_content_begin(uv_loop_t *loop, struct session_log *log,
	const char *message, size_t len, const json_t *content, prompt_content_read *done,
	void *arg);
/** Cancels reading: `done` is not called. Accepts NULL. */
void prompt_content_cancel(struct prompt_content *reading);

#endif
