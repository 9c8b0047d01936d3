/*
 * The images and files of a prompt, as the agent gets them: content blocks of ACP. Their blobs are
 * opened and read on the thread pool.
 */
#ifndef HOLDFAST_PROMPT_CONTENT_H
#define HOLDFAST_PROMPT_CONTENT_H

#include "holdfast/store.h"

#include <jansson.h>

struct prompt_content;
/** `blocks` is the receiver's; NULL and `why` if one of the blobs cannot be read. */
typedef void prompt_content_read(void *arg, json_t *blocks, const char *why);

/** For a message with `content`, a list that was checked; `log` is of its session. */
struct prompt_content *prompt_content_begin(uv_loop_t *loop, struct session_log *log,
	const char *message, size_t len, const json_t *content, prompt_content_read *done,
	void *arg);
/** Nobody waits for it any more. Accepts NULL. */
void prompt_content_cancel(struct prompt_content *reading);

#endif
