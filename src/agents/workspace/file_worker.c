#include "workspace_internal.h"

#include "holdfast/agent_files.h"
#include "holdfast/diag.h"
#include "holdfast/loop.h"
#include "holdfast/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Executes an agent's file requests in a helper process (agent_files.h), one at a time. A process
 * that does not answer in time is killed, and no other is started until it is gone: an agent whose
 * file system hangs has at most one hanging process. A request that comes while a process ends for
 * another reason waits for the next one.
 *
 * A frame is its length (8 bytes) and the fields listed here, as pack.h writes them.
 */

/* The process is ended after being idle this long. */
#define REST_MS 5000

/* --- frames --- */

static void end_frame(struct buffer *out)
{
	struct buffer head = {0};
	pack_le(&head, out->len - FILE_FRAME_HEAD, FILE_FRAME_HEAD);
	memcpy(out->data, head.data, FILE_FRAME_HEAD);
	buffer_finish(&head);
}

size_t file_frame_len(const char head[FILE_FRAME_HEAD])
{
	struct unpack in = {.bytes = head, .len = FILE_FRAME_HEAD};
	return (size_t)unpack_le(&in, FILE_FRAME_HEAD);
}

static void code_text(struct codec *c, char **text)
{
	struct buffer bytes = {0};
	if (c->out) {
		const char *given = *text ? *text : "";
		pack_bytes(c->out, given, strlen(given));
		return;
	}
	code_buffer(c, &bytes);
	free(*text);
	*text = xstrdup(buffer_cstr(&bytes));
	buffer_finish(&bytes);
}

static void code_job(struct codec *c, struct file_job *job)
{
	CODE(c, job->write, 1);
	CODE(c, job->root_is_real, 1);
	code_text(c, &job->root);
	code_text(c, &job->private_dir);
	code_text(c, &job->path);
	CODE(c, job->line, 8);
	CODE(c, job->limit, 8);
	CODE(c, job->file_max, 8);
	CODE(c, job->names_max, 8);
}

static void code_outcome(struct codec *c, struct file_job *job)
{
	CODE(c, job->code, 8);
	CODE(c, job->size, 8);
	CODE(c, job->created, 1);
	CODE(c, job->has_diff, 1);
	CODE(c, job->diff_cut, 1);
	code_text(c, &job->relative);
	code_buffer(c, &job->text);
	code_buffer(c, &job->diff);
}

static void pack_job(struct file_job *job, struct buffer *out)
{
	struct codec c = {.out = out};
	pack_le(out, 0, FILE_FRAME_HEAD);
	code_job(&c, job);
	pack_bytes(out, job->write ? json_string_value(job->content) : "",
		json_string_length(job->content));
	end_frame(out);
}

struct file_job *file_job_unpack(const char *bytes, size_t len)
{
	struct codec c = {.in = {.bytes = bytes, .len = len}};
	struct file_job *job = xcalloc(1, sizeof(*job));
	size_t content_len;
	code_job(&c, job);
	const char *content = unpack_bytes(&c.in, &content_len);
	job->content = json_stringn_nocheck(content, content_len);
	if (c.in.failed) {
		file_job_destroy(job);
		return NULL;
	}
	return job;
}

void file_job_pack_outcome(struct file_job *job, struct buffer *out)
{
	struct codec c = {.out = out};
	pack_le(out, 0, FILE_FRAME_HEAD);
	code_outcome(&c, job);
	end_frame(out);
}

static bool take_outcome(struct file_job *job, const char *bytes, size_t len)
{
	struct codec c = {.in = {.bytes = bytes, .len = len}};
	code_outcome(&c, job);
	return !c.in.failed;
}

/* --- the process --- */

void workspace_stop_files(struct workspace *ws)
{
	uv_timer_stop(&ws->file_timer);
	buffer_finish(&ws->file_reply);
	if (ws->file_process) {
		child_end(ws->file_process);
		ws->file_process = NULL;
	}
}

/** Fails the job; the agent gets the reason `why`. */
static void fail_job(struct workspace *ws, const char *why)
{
	struct file_job *job = ws->job;
	job->code = JSON_RPC_INTERNAL_ERROR;
	buffer_clear(&job->text);
	buffer_printf(&job->text, "%s%s: %s", why,
		job->write ? "; the file may or may not have been written" : "", job->path);
	workspace_file_done(ws);
}

static void handle_timer(uv_timer_t *timer)
{
	struct workspace *ws = timer->data;
	if (!ws->job) {
		workspace_stop_files(ws);
		return;
	}
	if (loop_put_off(timer, handle_timer)) {
		return;
	}
	diag(DIAG_WARN, "session %s: a file request of the agent timed out", ws->config.session_id);
	ws->file_process_hangs = true;
	if (ws->file_process) {
		child_kill(ws->file_process);
	}
	workspace_stop_files(ws);
	fail_job(ws, "the file system does not answer");
}

static void handle_output(void *owner, const char *bytes, size_t len)
{
	struct workspace *ws = owner;
	struct buffer *reply = &ws->file_reply;
	buffer_append(reply, bytes, len);
	if (!ws->job || reply->len < FILE_FRAME_HEAD) {
		return;
	}
	size_t want = file_frame_len(reply->data);
	if (reply->len - FILE_FRAME_HEAD < want) {
		return;
	}
	bool good = take_outcome(ws->job, reply->data + FILE_FRAME_HEAD, want);
	buffer_finish(reply);
	uv_timer_start(&ws->file_timer, handle_timer, REST_MS, 0);
	if (good) {
		workspace_file_done(ws);
	} else {
		workspace_stop_files(ws);
		fail_job(ws, "the answer cannot be read");
	}
}

static void handle_errors(void *owner, const char *bytes, size_t len)
{
	struct workspace *ws = owner;
	diag(DIAG_WARN, "session %s: the process for files: %.*s", ws->config.session_id, (int)len,
		bytes);
}

static void handle_finished(void *owner, int64_t status, int term_signal)
{
	struct workspace *ws = owner;
	workspace_stop_files(ws);
	if (ws->job) {
		fail_job(ws, "the process for files has ended");
	}
}

static void begin(struct workspace *ws);

static void handle_closed(void *owner)
{
	struct workspace *ws = owner;
	ws->file_process_open = ws->file_process_hangs = false;
	if (!ws->job) {
		workspace_free_if_done(ws);
	} else if (ws->closing) {
		fail_job(ws, "the server stops");
	} else {
		begin(ws);
	}
}

static int start(struct workspace *ws)
{
	static const struct child_ops ops = {
		.output = handle_output,
		.errors = handle_errors,
		.finished = handle_finished,
		.closed = handle_closed,
	};
	struct child_config config = {
		.spawner = ws->config.commands.spawner,
		.is_helper = true,
		.stop_grace_ms = ws->config.commands.stop_grace_ms,
		.descriptors_kept = ws->config.commands.descriptors_kept,
	};
	ws->file_process_open = true;
	return child_spawn(ws->loop, &config, &ops, ws, &ws->file_process);
}

/** Starts the process if need be, and passes the job on. */
static void begin(struct workspace *ws)
{
	struct buffer frame = {0};
	int err = ws->file_process ? 0 : start(ws);
	if (err < 0) {
		char why[128];
		snprintf(why, sizeof(why), "no process can be started for it (%s)",
			uv_strerror(err));
		fail_job(ws, why);
		return;
	}
	pack_job(ws->job, &frame);
	child_write(ws->file_process, &frame);
	uv_timer_start(&ws->file_timer, handle_timer, (uint64_t)ws->config.file_ms, 0);
}

void workspace_do_file(struct workspace *ws, struct file_job *job)
{
	ws->job = job;
	if (ws->file_process_hangs) {
		fail_job(ws, "an earlier file still does not answer");
	} else if (!ws->file_process && ws->file_process_open) {
		/* handle_closed() goes on */
		uv_timer_start(&ws->file_timer, handle_timer, (uint64_t)ws->config.file_ms, 0);
	} else {
		begin(ws);
	}
}
