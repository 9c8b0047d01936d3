/* The process of agent_files.h: executes one job after the other until stdin ends. */
#include "holdfast/agent_files.h"

#include "workspace_internal.h"

#include "holdfast/sandbox.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/** Reads exactly `len` bytes; returns false at the end of stdin. */
static bool read_whole(char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t n = read(STDIN_FILENO, bytes, len);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return false;
		}
		bytes += n;
		len -= (size_t)n;
	}
	return true;
}

static bool write_whole(const char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t n = write(STDOUT_FILENO, bytes, len);
		if (n < 0 && errno != EINTR) {
			return false;
		}
		bytes += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return true;
}

/** Executes one job; returns false at the end of stdin or on an error. */
static bool do_one(struct buffer *frame)
{
	char head[FILE_FRAME_HEAD];
	if (!read_whole(head, sizeof(head))) {
		return false;
	}
	size_t len = file_frame_len(head);
	buffer_reserve(frame, len);
	if (!read_whole(frame->data, len)) {
		return false;
	}
	struct file_job *job = file_job_unpack(frame->data, len);
	if (!job) {
		return false;
	}
	file_job_work(job);
	buffer_clear(frame);
	file_job_pack_outcome(job, frame);
	file_job_destroy(job);
	bool written = write_whole(frame->data, frame->len);
	buffer_finish(frame);
	return written;
}

int agent_files_run(int argc, char **argv)
{
	struct buffer frame = {0};
	sandbox_shield();
	/* Finish what was begun, so that no partial file is left; SIGKILL follows later. */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	/* Descriptors that the parent of the server left open. */
	close_range(STDERR_FILENO + 1, ~0U, 0);
	while (do_one(&frame)) {
	}
	buffer_finish(&frame);
	return 0;
}
