/*
 * The agent's end of the pipes, for the bundled agents: lines from stdin and lines to stdout, both
 * through the loop. What is said in one tick of the loop goes out in one write. The owner bounds
 * the queue by asking agent_io_is_full() before it says more.
 */
#ifndef HOLDFAST_AGENT_IO_H
#define HOLDFAST_AGENT_IO_H

#include "holdfast/buffer.h"
#include "holdfast/json_lines.h"

#include <jansson.h>
#include <stdbool.h>
#include <string.h>
#include <uv.h>

struct agent_io_ops {
	/**
	 * The JSON value of a line. Lines that are not JSON are answered with a parse error
	 * instead.
	 */
	void (*message)(void *owner, const json_t *message);
	/** Bytes were written, and the queue is not full. */
	void (*drained)(void *owner);
	/** stdin has ended, stdout cannot be written to any more, or SIGTERM or SIGINT came. */
	void (*ended)(void *owner);
};

union agent_stream {
	uv_handle_t handle;
	uv_stream_t stream;
	uv_pipe_t pipe;
	uv_tty_t tty;
};

struct agent_io {
	const struct agent_io_ops *ops;
	void *owner;
	union agent_stream in;
	union agent_stream out;
	uv_signal_t signals[2]; /* SIGTERM, SIGINT */
	uv_prepare_t flush; /* writes what was queued in this tick of the loop, before it sleeps */
	uv_write_t request;
	struct json_lines lines; /* of stdin */
	char read_buf[64 * 1024];
	bool held; /* lines wait until stdout has room */
	struct buffer queued; /* for the next write */
	struct buffer writing; /* borrowed by libuv while `is_writing` */
	bool is_writing;
	bool is_closed;
};

/** A JSON string without NUL bytes, or NULL. */
static inline const char *plain_string(const json_t *json)
{
	const char *text = json_string_value(json);
	return text && strlen(text) == json_string_length(json) ? text : NULL;
}

/**
 * Opens stdin and stdout and starts to read; `ops` and `owner` must outlive it. Returns 0 or a
 * negative errno.
 */
int agent_io_open(
	struct agent_io *io, uv_loop_t *loop, const struct agent_io_ops *ops, void *owner);
/** Stops at once and drops what is queued. The loop must run once more before agent_io_finish(). */
void agent_io_close(struct agent_io *io);
/** Frees the buffers. */
void agent_io_finish(struct agent_io *io);

/**
 * The buffer for output: append whole lines, each with its newline. Valid until control returns to
 * the loop.
 */
struct buffer *agent_io_out(struct agent_io *io);
/** Whether so much is queued that further output should wait for drained(). */
bool agent_io_is_full(const struct agent_io *io);
/** Whether every byte has been written. */
bool agent_io_is_empty(const struct agent_io *io);

#endif
