/* holdfast acp-record: relays between an ACP client and its agent, and records each line. */
#include "holdfast/command.h"

#include "acp_recording.h"

#include "holdfast/buffer.h"
#include "holdfast/descriptors.h"
#include "holdfast/diag.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define READ_SIZE     ((size_t)64 * 1024)
#define QUEUE_MAX     ((size_t)1024 * 1024) /* bytes queued in a direction before its source waits */
#define LINE_MAX_SIZE ((size_t)64 * 1024 * 1024) /* a longer line is not recorded */
#define WRITE_SIZE    ((size_t)4096) /* a pipe that is ready for writing takes this much at once */

enum { OUT };

static const struct option options[] = {
	[OUT] = {"--out", "FILE", NULL, NULL,
		"the file to write; an existing file is appended to, as another process. Default: acp-TIME-PID.jsonl in this directory"},
	{0},
};

static const struct command command = {
	.usage = "acp-record [--out FILE] -- COMMAND [ARGUMENT …]",
	.help = "Runs an agent that speaks ACP, relays its stdin and stdout, and writes each line to a file. Put it\n"
		"before the agent's command:\n\n"
		"  holdfast serve --agent 'holdfast acp-record --out talk.jsonl -- opencode acp'\n\n"
		"holdfast-replay-agent plays the file. It contains prompts, files and answers verbatim: check it before you\n"
		"share it.\n\n"
		"Exit codes: that of the agent, or 2 if it could not be started.\n",
	.options = options,
};

/* One direction of the conversation. */
struct lane {
	const char *name; /* "c2a" or "a2c" */
	int from; /* -1 after its end */
	int to; /* -1 after its reader has gone */
	struct buffer queue; /* for `to` */
	size_t written; /* bytes of it: they are removed together, as what is behind them moves */
	struct buffer line; /* the current line, until its newline */
	bool is_too_long; /* the current line, which is not kept */
};

struct recorder {
	struct acp_recording file;
	struct lane lanes[2]; /* client to agent, agent to client */
	int signals;
	pid_t agent;
	bool exited;
	int status;
};

static void close_once(int *fd)
{
	if (*fd >= 0) {
		close(*fd);
		*fd = -1;
	}
}

static void end_line(struct recorder *r, struct lane *lane)
{
	if (!lane->is_too_long) {
		acp_recording_line(&r->file, lane->name, lane->line.data, lane->line.len);
	}
	buffer_clear(&lane->line);
	lane->is_too_long = false;
}

static void keep(struct recorder *r, struct lane *lane, const char *bytes, size_t len)
{
	if (lane->line.len + len <= LINE_MAX_SIZE && !lane->is_too_long) {
		buffer_append(&lane->line, bytes, len);
	} else if (!lane->is_too_long) {
		lane->is_too_long = true;
		buffer_finish(&lane->line);
		diag(DIAG_ERROR, "%s: a line is longer than 64 MiB; the recording is not complete",
			r->file.path);
	}
}

static void take_bytes(struct recorder *r, struct lane *lane, const char *bytes, size_t len)
{
	if (lane->to >= 0) {
		buffer_append(&lane->queue, bytes, len);
	}
	while (len > 0) {
		const char *end = memchr(bytes, '\n', len);
		size_t piece = end ? (size_t)(end - bytes) : len;
		keep(r, lane, bytes, piece);
		if (!end) {
			return;
		}
		end_line(r, lane);
		bytes += piece + 1;
		len -= piece + 1;
	}
}

/** Returns how many bytes were read. */
static size_t read_lane(struct recorder *r, struct lane *lane)
{
	char bytes[READ_SIZE];
	ssize_t len = read(lane->from, bytes, sizeof(bytes));
	if (len > 0) {
		take_bytes(r, lane, bytes, (size_t)len);
		return (size_t)len;
	}
	if (len == 0 || (errno != EINTR && errno != EAGAIN)) {
		if (lane->line.len > 0) {
			end_line(r, lane);
		}
		close_once(&lane->from);
	}
	return 0;
}

/** Returns how many bytes are still to be written. */
static size_t queued(const struct lane *lane)
{
	return lane->queue.len - lane->written;
}

static void drop_queue(struct lane *lane)
{
	buffer_clear(&lane->queue);
	lane->written = 0;
}

static void write_lane(struct lane *lane)
{
	size_t size = queued(lane) < WRITE_SIZE ? queued(lane) : WRITE_SIZE;
	ssize_t len = write(lane->to, lane->queue.data + lane->written, size);
	if (len >= 0) {
		lane->written += (size_t)len;
		if (lane->written >= lane->queue.len / 2) {
			buffer_consume(&lane->queue, lane->written);
			lane->written = 0;
		}
	} else if (errno != EINTR && errno != EAGAIN) {
		drop_queue(lane);
		close_once(&lane->to);
	}
}

/** Closes `to` once `from` has ended and the queue is written. */
static void end_lane(struct lane *lane)
{
	if (lane->from < 0 && queued(lane) == 0) {
		close_once(&lane->to);
	}
}

static void take_signals(struct recorder *r)
{
	struct signalfd_siginfo info;
	while (read(r->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo != SIGCHLD) {
			kill(r->agent, (int)info.ssi_signo);
		}
	}
	if (!r->exited && waitpid(r->agent, &r->status, WNOHANG) == r->agent) {
		r->exited = true;
	}
}

/** Sets what to poll for in a direction, which is read only while its queue has room. */
static void set_polls(const struct lane *lane, struct pollfd *from, struct pollfd *to)
{
	bool has_room = queued(lane) < QUEUE_MAX;
	*from = (struct pollfd){.fd = has_room ? lane->from : -1, .events = POLLIN};
	*to = (struct pollfd){.fd = lane->to, .events = queued(lane) > 0 ? POLLOUT : 0};
}

static void serve_lane(
	struct recorder *r, struct lane *lane, const struct pollfd *from, const struct pollfd *to)
{
	if (from->fd >= 0 && from->revents) {
		read_lane(r, lane);
	}
	if (to->fd >= 0 && (to->revents & POLLOUT) && queued(lane) > 0) {
		write_lane(lane);
	} else if (to->fd >= 0 && (to->revents & (POLLERR | POLLHUP | POLLNVAL))) {
		drop_queue(lane);
		close_once(&lane->to);
	}
	end_lane(lane);
}

/**
 * Reads what the agent wrote before it exited, and no more: a child of the agent may hold the pipe
 * open, and write on.
 */
static void read_rest(struct recorder *r, struct lane *out)
{
	int size = 0;
	if (out->from >= 0 && ioctl(out->from, FIONREAD, &size) < 0) {
		size = 0;
	}
	for (size_t left = (size_t)size, n = 1; left > 0 && n > 0;) {
		n = read_lane(r, out);
		left -= n < left ? n : left;
	}
	if (out->line.len > 0) {
		end_line(r, out);
	}
}

/** Writes the rest to the client, unless a signal ends the recorder first. */
static void write_rest(struct recorder *r, struct lane *out)
{
	struct signalfd_siginfo info = {.ssi_signo = SIGCHLD};
	while (out->to >= 0 && queued(out) > 0 && info.ssi_signo == SIGCHLD) {
		struct pollfd fds[2] = {
			{.fd = out->to, .events = POLLOUT}, {.fd = r->signals, .events = POLLIN}};
		poll(fds, 2, -1);
		if (fds[0].revents) {
			write_lane(out);
		}
		while (read(r->signals, &info, sizeof(info)) == sizeof(info) &&
			info.ssi_signo == SIGCHLD) {
		}
	}
}

static void pass_on(struct recorder *r)
{
	struct lane *in = &r->lanes[0];
	struct lane *out = &r->lanes[1];
	while (!r->exited) {
		struct pollfd fds[5] = {{.fd = r->signals, .events = POLLIN}};
		set_polls(in, &fds[1], &fds[2]);
		set_polls(out, &fds[3], &fds[4]);
		poll(fds, 5, -1);
		serve_lane(r, in, &fds[1], &fds[2]);
		serve_lane(r, out, &fds[3], &fds[4]);
		if (out->to < 0 && out->from >= 0) {
			close_once(&in->to); /* the client is gone: end the agent's stdin */
		}
		take_signals(r);
	}
	read_rest(r, out);
	write_rest(r, out);
}

static _Noreturn void run_agent(char **args, int in, int out, const sigset_t *mask)
{
	dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(args[0], args);
	dprintf(STDERR_FILENO, "holdfast acp-record: %s: %s\n", args[0], strerror(errno));
	_exit(127);
}

/** Starts the agent, and puts our ends of its pipes into the lanes. */
static int start_agent(struct recorder *r, char **args)
{
	sigset_t mask;
	int in[2];
	int out[2];
	signal(SIGPIPE, SIG_IGN);
	r->signals = descriptors_of_signals(&mask);
	if (r->signals < 0 || pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0) {
		return -errno;
	}
	r->agent = fork();
	if (r->agent == 0) {
		run_agent(args, in[0], out[1], &mask);
	}
	int err = r->agent < 0 ? -errno : 0;
	close(in[0]);
	close(out[1]);
	fcntl(in[1], F_SETFL, O_NONBLOCK);
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	r->lanes[0] = (struct lane){.name = "c2a", .from = STDIN_FILENO, .to = in[1]};
	r->lanes[1] = (struct lane){.name = "a2c", .from = out[0], .to = STDOUT_FILENO};
	return err;
}

static int record(struct recorder *r, char **args)
{
	int err = start_agent(r, args);
	if (err < 0) {
		diag(DIAG_ERROR, "the agent cannot be started: %s", strerror(-err));
		return TOOL_FAILED;
	}
	acp_recording_spawn(&r->file);
	pass_on(r);
	acp_recording_exit(&r->file, r->status);
	for (size_t i = 0; i < 2; i++) {
		buffer_finish(&r->lanes[i].queue);
		buffer_finish(&r->lanes[i].line);
	}
	return WIFSIGNALED(r->status) ? 128 + WTERMSIG(r->status) : WEXITSTATUS(r->status);
}

int tool_acp_record(int argc, char **argv)
{
	const char *values[] = {NULL};
	int own = 0;
	while (own < argc && strcmp(argv[own], "--") != 0) {
		own++;
	}
	int r = options_parse(&command, own, argv, NULL, values, NULL);
	if (r != 0) {
		return r > 0 ? 0 : TOOL_FAILED;
	}
	if (own + 1 >= argc) {
		diag(DIAG_ERROR, "the agent's command is missing; usage: holdfast %s",
			command.usage);
		return TOOL_FAILED;
	}
	struct recorder recorder = {0};
	if (acp_recording_open(&recorder.file, values[OUT]) < 0) {
		return TOOL_FAILED;
	}
	r = record(&recorder, argv + own + 1);
	acp_recording_close(&recorder.file);
	return r;
}
