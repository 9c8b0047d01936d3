#include "agent_io.h"

#include "holdfast/json_rpc.h"

#include <errno.h>
#include <signal.h>

enum {
	LINE_MAX_BYTES = 16 * 1024 * 1024,
	/*
	 * Above OUT_FULL, tokens wait; only answers to requests can exceed it. Above OUT_LIMIT, no
	 * more requests are taken: a client might ask without end and never read.
	 */
	OUT_FULL = 256 * 1024,
	OUT_LIMIT = 1024 * 1024,
};

static size_t out_size(const struct agent_io *io)
{
	return io->queued.len + io->writing.len;
}

static void end(struct agent_io *io)
{
	if (!io->is_closed) {
		io->ops->ended(io->owner);
	}
}

static void take_line(struct agent_io *io, const char *line, size_t len)
{
	/* Blank lines are ignored. The newline after the line stops the span. */
	if (strspn(line, " \t\r") >= len) {
		return;
	}
	json_t *message = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
	if (message) {
		io->ops->message(io->owner, message);
	} else {
		json_rpc_error(&io->queued, NULL, JSON_RPC_PARSE_ERROR, "parse error");
	}
	json_decref(message);
}

/* Passes on the complete lines; stops early if answers pile up or the owner closes. */
static void take_lines(struct agent_io *io)
{
	enum json_line found = JSON_LINE_READY;
	io->held = false;
	while (!io->is_closed && !io->held && found != JSON_LINE_NONE) {
		char *line;
		size_t len;
		found = json_lines_next(&io->lines, &line, &len);
		if (found == JSON_LINE_READY) {
			take_line(io, line, len);
		} else if (found == JSON_LINE_TOO_LONG) {
			json_rpc_error(&io->queued, NULL, JSON_RPC_PARSE_ERROR,
				"the line is too long, or nests too deep");
		}
		io->held = out_size(io) > OUT_LIMIT;
	}
}

static void lend_room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
	struct agent_io *io = handle->data;
	*ret_buf = uv_buf_init(io->read_buf, sizeof(io->read_buf));
}

static void handle_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
	struct agent_io *io = stream->data;
	if (len < 0) {
		end(io);
		return;
	}
	json_lines_push(&io->lines, buf->base, (size_t)len);
	take_lines(io);
	if (io->held) {
		uv_read_stop(stream);
	}
}

static void handle_written(uv_write_t *request, int status)
{
	struct agent_io *io = request->data;
	io->is_writing = false;
	buffer_clear(&io->writing);
	if (io->is_closed) {
		return;
	}
	if (status < 0) {
		end(io);
		return;
	}
	if (io->held) {
		take_lines(io);
		if (!io->held && !io->is_closed) {
			uv_read_start(&io->in.stream, lend_room, handle_read);
		}
	}
	if (!io->is_closed && !agent_io_is_full(io)) {
		io->ops->drained(io->owner);
	}
}

static void handle_flush(uv_prepare_t *prepare)
{
	struct agent_io *io = prepare->data;
	if (io->is_writing || !io->queued.len) {
		return;
	}
	struct buffer next = io->queued;
	io->queued = io->writing;
	io->writing = next;
	uv_buf_t buf = uv_buf_init(next.data, (unsigned)next.len);
	io->request.data = io;
	if (uv_write(&io->request, &io->out.stream, &buf, 1, handle_written) < 0) {
		end(io);
		return;
	}
	io->is_writing = true;
}

static void handle_signal(uv_signal_t *handle, int number)
{
	end(handle->data);
}

static int open_stream(union agent_stream *s, uv_loop_t *loop, int fd)
{
	int r;
	switch (uv_guess_handle(fd)) {
	case UV_NAMED_PIPE:
		r = uv_pipe_init(loop, &s->pipe, 0);
		return r ? r : uv_pipe_open(&s->pipe, fd);
	case UV_TTY:
		return uv_tty_init(loop, &s->tty, fd, 0);
	default:
		return -ENOTSUP;
	}
}

int agent_io_open(struct agent_io *io, uv_loop_t *loop, const struct agent_io_ops *ops, void *owner)
{
	*io = (struct agent_io){.ops = ops, .owner = owner};
	json_lines_init(&io->lines, LINE_MAX_BYTES);
	int r = open_stream(&io->in, loop, 0);
	if (!r) {
		r = open_stream(&io->out, loop, 1);
	}
	if (r) {
		return r;
	}
	io->in.handle.data = io;
	io->out.handle.data = io;
	uv_prepare_init(loop, &io->flush);
	io->flush.data = io;
	uv_prepare_start(&io->flush, handle_flush);
	static const int numbers[] = {SIGTERM, SIGINT};
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && !r; i++) {
		r = uv_signal_init(loop, &io->signals[i]);
		io->signals[i].data = io;
		r = r ? r : uv_signal_start(&io->signals[i], handle_signal, numbers[i]);
	}
	return r ? r : uv_read_start(&io->in.stream, lend_room, handle_read);
}

void agent_io_close(struct agent_io *io)
{
	if (io->is_closed) {
		return;
	}
	io->is_closed = true;
	uv_close(&io->in.handle, NULL);
	uv_close(&io->out.handle, NULL);
	uv_close((uv_handle_t *)&io->flush, NULL);
	for (size_t i = 0; i < sizeof(io->signals) / sizeof(io->signals[0]); i++) {
		uv_close((uv_handle_t *)&io->signals[i], NULL);
	}
}

void agent_io_finish(struct agent_io *io)
{
	json_lines_finish(&io->lines);
	buffer_finish(&io->queued);
	buffer_finish(&io->writing);
}

struct buffer *agent_io_out(struct agent_io *io)
{
	return &io->queued;
}

bool agent_io_is_full(const struct agent_io *io)
{
	return out_size(io) > OUT_FULL;
}

bool agent_io_is_empty(const struct agent_io *io)
{
	return !out_size(io);
}
