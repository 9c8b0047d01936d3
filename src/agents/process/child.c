#include "child.h"

#include "process_internal.h"

#include "holdfast/descriptors.h"
#include "holdfast/loop.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Most bytes queued for a child that does not read its stdin, not counting the message that exceeds
 * this.
 */
#define WRITE_QUEUE_MAX ((size_t)8 * 1024 * 1024)
/*
 * How long output is awaited after the exit: a descendant that has left the group may keep the
 * child's stdout open.
 */
#define DRAIN_MS 1000
#define POLL_MS  20
#define GUARD_MS 3000

enum stop_stage { STOP_NONE, STOP_HUNG_UP, STOP_TERMINATED, STOP_KILLED };

struct child {
	struct spawned process;
	uv_pipe_t in;
	uv_pipe_t out;
	uv_pipe_t err;
	uv_pipe_t lifeline; /* of its guard, which also reports here; unused without a guard */
	uv_timer_t timer;
	bool has_child; /* `process` was started and is not released yet */
	unsigned open_handles;
	const struct child_ops *ops;
	void *owner;
	int grace_ms;
	bool one_output;
	bool guarded;
	bool is_alone; /* its process group has no other processes */
	enum stop_stage stage;
	int64_t kill_at_ms; /* while it is being ended */
	bool ending; /* child_end() was called */
	bool closing;
	bool exited;
	bool output_ended;
	bool paused;
	int64_t exit_status;
	int term_signal;
	struct box *box; /* NULL: none */
	struct box_part part;
	struct usage report; /* of the guard; `report_len` bytes of it have been read */
	size_t report_len;
	bool report_ended;
	char read_buf[64 * 1024]; /* shared by both pipes: each read is consumed before the next */
};

struct pending_write {
	uv_write_t req;
	struct child *child;
	struct buffer bytes;
};

static void handle_closed(uv_handle_t *handle)
{
	struct child *p = handle->data;
	assert(p->open_handles > 0);
	if (--p->open_handles == 0) {
		if (p->box) {
			box_leave(p->box, &p->part);
		}
		p->ops->closed(p->owner);
		free(p);
	}
}

static void close_once(uv_handle_t *handle)
{
	if (!uv_is_closing(handle)) {
		uv_close(handle, handle_closed);
	}
}

static void close_all(struct child *p)
{
	p->closing = true;
	if (p->has_child) {
		p->has_child = false;
		spawned_release(&p->process);
	}
	close_once((uv_handle_t *)&p->in);
	close_once((uv_handle_t *)&p->out);
	close_once((uv_handle_t *)&p->err);
	close_once((uv_handle_t *)&p->lifeline);
	close_once((uv_handle_t *)&p->timer);
}

/**
 * How long to wait before SIGKILL. A guard enforces the grace period itself, and then needs time to
 * see everyone dead.
 */
static uint64_t patience_ms(const struct child *p)
{
	return (uint64_t)p->grace_ms + (p->guarded ? GUARD_MS : 0);
}

static void signal_group(struct child *p, int signal_number)
{
	/*
	 * An id is not reused while a process group has it, so at worst this finds no process. A
	 * guard is alone in its group and leaves no process behind; so is the helper.
	 */
	if (p->has_child && !(p->is_alone && p->exited)) {
		spawned_signal(&p->process, signal_number);
	}
}

static void handle_timer(uv_timer_t *timer);

static void wait_grace(struct child *p)
{
	uv_timer_start(&p->timer, handle_timer, patience_ms(p), 0);
}

static void terminate(struct child *p)
{
	p->stage = STOP_TERMINATED;
	signal_group(p, SIGTERM);
	wait_grace(p);
}

static void escalate(struct child *p)
{
	if (p->stage == STOP_HUNG_UP) {
		terminate(p);
	} else {
		p->stage = STOP_KILLED;
		signal_group(p, SIGKILL);
	}
}

/** The leader is gone; the rest of its group has the remainder of the grace period to follow. */
static void await_group(struct child *p)
{
	bool empty = p->is_alone || (kill(-p->process.pid, 0) < 0 && errno == ESRCH);
	if (empty || p->stage == STOP_KILLED || loop_now_ms(p->timer.loop) >= p->kill_at_ms) {
		signal_group(p, SIGKILL);
		close_all(p);
		return;
	}
	uv_timer_start(&p->timer, handle_timer, POLL_MS, 0);
}

/**
 * Reads what the child wrote to stderr right before its end and we have not read yet: it often says
 * why it ended.
 */
static void read_last_errors(struct child *p)
{
	char bytes[4096];
	uv_os_fd_t fd;
	ssize_t len = 1;
	if (uv_fileno((uv_handle_t *)&p->err, &fd) < 0) {
		return;
	}
	for (int i = 0; i < 16 && len > 0; i++) {
		len = read(fd, bytes, sizeof(bytes));
		if (len > 0) {
			p->ops->errors(p->owner, bytes, (size_t)len);
		}
	}
}

static void finish_if_drained(struct child *p)
{
	bool is_drained = p->output_ended && (!p->box || p->report_ended);
	if (p->exited && is_drained && !p->ending && !p->closing) {
		uv_timer_stop(&p->timer);
		read_last_errors(p);
		p->ops->finished(p->owner, p->exit_status, p->term_signal);
	}
}

static void handle_timer(uv_timer_t *timer)
{
	struct child *p = timer->data;
	if (loop_put_off(timer, handle_timer)) {
		return;
	}
	if (!p->exited) {
		escalate(p);
	} else if (p->ending) {
		await_group(p);
	} else if (p->paused) {
		uv_timer_start(timer, handle_timer, DRAIN_MS, 0);
	} else {
		uv_read_stop((uv_stream_t *)&p->out);
		p->output_ended = p->report_ended = true;
		finish_if_drained(p);
	}
}

static void handle_exit(struct spawned *process, int status)
{
	struct child *p = list_entry(process, struct child, process);
	p->exited = true;
	p->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
	p->term_signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	if (p->ending) {
		await_group(p);
		return;
	}
	signal_group(p, SIGKILL);
	uv_timer_start(&p->timer, handle_timer, DRAIN_MS, 0);
	finish_if_drained(p);
}

/**
 * The child has closed stdout or stdin, so talking to it is over. Most programs end by themselves
 * once their stdin is closed.
 */
static void hang_up(struct child *p)
{
	if (!p->exited && !p->ending && p->stage == STOP_NONE) {
		p->stage = STOP_HUNG_UP;
		close_once((uv_handle_t *)&p->in);
		wait_grace(p);
	}
}

static void handle_output_end(struct child *p)
{
	uv_read_stop((uv_stream_t *)&p->out);
	p->output_ended = true;
	finish_if_drained(p);
	/* A terminal command may continue silently; an agent that cannot answer is useless. */
	if (!p->one_output) {
		hang_up(p);
	}
}

static void handle_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
	struct child *p = handle->data;
	*ret_buf = uv_buf_init(p->read_buf, sizeof(p->read_buf));
}

static void handle_output(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
	struct child *p = stream->data;
	if (len > 0) {
		p->ops->output(p->owner, buf->base, (size_t)len);
	} else if (len < 0) {
		handle_output_end(p);
	}
}

static void handle_errors(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
	struct child *p = stream->data;
	if (len > 0) {
		p->ops->errors(p->owner, buf->base, (size_t)len);
	} else if (len < 0) {
		uv_read_stop(stream);
	}
}

static void handle_report_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
	struct child *p = handle->data;
	*ret_buf = uv_buf_init(
		(char *)&p->report + p->report_len, (unsigned)(sizeof(p->report) - p->report_len));
}

static void handle_report(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
	struct child *p = stream->data;
	if (len < 0) {
		uv_read_stop(stream);
		p->report_ended = true;
		finish_if_drained(p);
		return;
	}
	p->report_len += (size_t)len;
	if (p->report_len == sizeof(p->report)) {
		p->report_len = 0;
		box_note(p->box, &p->part, &p->report);
	}
}

/**
 * Creates a socket or pipe: `ours` gets one end, and *ret_end is the child's, which the caller
 * closes.
 */
static int open_pipe(uv_pipe_t *ours, bool is_socket, int *ret_end)
{
	int ends[2];
	int err = is_socket ? uv_socketpair(SOCK_STREAM, 0, ends, UV_NONBLOCK_PIPE, 0)
			    : uv_pipe(ends, UV_NONBLOCK_PIPE, 0);
	if (err < 0) {
		return err;
	}
	err = uv_pipe_open(ours, ends[0]);
	if (err < 0) {
		close(ends[0]);
		close(ends[1]);
		return err;
	}
	*ret_end = ends[1];
	return 0;
}

/**
 * Opens the pipes. Returns 0 or a negative errno; in both cases *request holds the ends that are
 * open.
 */
static int open_pipes(struct child *p, struct spawn_request *request)
{
	int err = 0;
	if (!p->one_output) {
		err = open_pipe(&p->in, true, &request->in);
		err = err < 0 ? err : open_pipe(&p->err, true, &request->err);
	}
	/*
	 * A pipe if stdout and stderr share it: programs can open /dev/stdout again then, which a
	 * socket does not allow.
	 */
	err = err < 0 ? err : open_pipe(&p->out, !p->one_output, &request->out);
	if (err == 0 && p->guarded) {
		err = open_pipe(&p->lifeline, true, &request->lifeline);
	}
	return err;
}

static void close_ends(const struct spawn_request *request)
{
	const int ends[] = {request->in, request->out, request->err, request->lifeline};
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		if (ends[i] >= 0) {
			close(ends[i]);
		}
	}
}

static int start_child(struct child *p, const struct child_config *config)
{
	char *shell[] = {(char *)"/bin/sh", (char *)"-c", (char *)config->command, NULL};
	struct orders orders = {.name = (char *)(p->box ? box_name(p->box) : ""),
		.is_agent = !config->one_output,
		.grace_ms = config->stop_grace_ms,
		.dir = (char *)config->cwd,
		.root = (char *)(config->root ? config->root : ""),
		.args = config->args ? config->args : shell,
		.env = config->env};
	struct spawn_request request = {.orders = config->is_helper ? NULL : &orders,
		.one_output = p->one_output,
		.in = -1,
		.out = -1,
		.err = -1,
		.lifeline = -1};
	int err = open_pipes(p, &request);
	err = err < 0 ? err : spawner_start(config->spawner, &request, &p->process);
	close_ends(&request);
	p->has_child = err == 0;
	return err;
}

int child_spawn(uv_loop_t *loop, const struct child_config *config, const struct child_ops *ops,
	void *owner, struct child **ret_process)
{
	struct child *p = xcalloc(1, sizeof(*p));
	p->ops = ops;
	p->owner = owner;
	p->grace_ms = config->stop_grace_ms;
	p->one_output = config->one_output;
	p->guarded = !config->is_helper && config->spawner && spawner_has_guards(config->spawner);
	p->is_alone = p->guarded || config->is_helper;
	p->box = p->guarded ? config->box : NULL;
	p->process.exited = handle_exit;
	if (p->box) {
		box_enter(p->box, &p->part, p);
	}
	uv_pipe_init(loop, &p->in, 0);
	uv_pipe_init(loop, &p->out, 0);
	uv_pipe_init(loop, &p->err, 0);
	uv_pipe_init(loop, &p->lifeline, 0);
	uv_timer_init(loop, &p->timer);
	p->in.data = p->out.data = p->err.data = p->lifeline.data = p->timer.data = p;
	p->open_handles = 5;
	int err = config->descriptors_kept ? descriptors_check(config->descriptors_kept) : 0;
	err = err < 0 ? err : start_child(p, config);
	if (err < 0) {
		close_all(p);
		return err;
	}
	uv_read_start((uv_stream_t *)&p->out, handle_alloc, handle_output);
	if (!p->one_output) {
		uv_read_start((uv_stream_t *)&p->err, handle_alloc, handle_errors);
	}
	if (p->box) {
		uv_read_start((uv_stream_t *)&p->lifeline, handle_report_alloc, handle_report);
	}
	*ret_process = p;
	return 0;
}

static void handle_written(uv_write_t *req, int status)
{
	struct pending_write *w = req->data;
	if (status < 0 && status != UV_ECANCELED) {
		hang_up(w->child);
	}
	buffer_finish(&w->bytes);
	free(w);
}

int child_write(struct child *p, struct buffer *bytes)
{
	int err = 0;
	if (uv_stream_get_write_queue_size((uv_stream_t *)&p->in) > WRITE_QUEUE_MAX) {
		err = -ENOBUFS;
	} else if (!uv_is_closing((uv_handle_t *)&p->in)) {
		struct pending_write *w = xmalloc(sizeof(*w));
		w->child = p;
		w->bytes = *bytes;
		buffer_init(bytes);
		w->req.data = w;
		uv_buf_t buf = {.base = w->bytes.data, .len = w->bytes.len};
		int failed = uv_write(&w->req, (uv_stream_t *)&p->in, &buf, 1, handle_written);
		if (failed < 0) {
			handle_written(&w->req, failed);
		}
	}
	buffer_finish(bytes);
	return err;
}

void child_pause(struct child *p, bool paused)
{
	if (p->paused == paused || p->ending || p->closing) {
		return;
	}
	p->paused = paused;
	if (paused) {
		uv_read_stop((uv_stream_t *)&p->out);
	} else if (!p->output_ended) {
		uv_read_start((uv_stream_t *)&p->out, handle_alloc, handle_output);
	}
}

void child_terminate(struct child *p)
{
	if (!p->exited && !p->ending && !p->closing && p->stage < STOP_TERMINATED) {
		terminate(p);
	}
}

/** Lowers the grace period, if it is longer. */
static void shorten_grace(struct child *p, int32_t ms)
{
	uv_buf_t order = uv_buf_init((char *)&ms, sizeof(ms));
	if (ms >= p->grace_ms) {
		return;
	}
	p->grace_ms = ms;
	if (p->guarded) {
		uv_try_write((uv_stream_t *)&p->lifeline, &order, 1);
	}
}

void child_end(struct child *p)
{
	if (p->ending || p->closing) {
		return;
	}
	shorten_grace(p, spawner_grace(p->process.spawner));
	p->ending = true;
	p->kill_at_ms = loop_now_ms(p->timer.loop) + (int64_t)patience_ms(p);
	close_once((uv_handle_t *)&p->in);
	close_once((uv_handle_t *)&p->lifeline);
	uv_read_stop((uv_stream_t *)&p->out);
	if (p->exited) {
		close_all(p);
	} else {
		terminate(p);
	}
}

void child_kill(struct child *p)
{
	if (p->guarded && !p->ending && !p->closing) {
		shorten_grace(p, 0);
	} else if (!p->guarded && !p->exited) {
		signal_group(p, SIGKILL);
	}
	child_end(p);
}
